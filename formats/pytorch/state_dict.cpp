#include "formats/pytorch/state_dict.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "backplane/dtype.hpp"
#include "backplane/text.hpp"
#include "formats/huggingface/files.hpp"
#include "formats/huggingface/limits.hpp"
#include "formats/pytorch/limits.hpp"
#include "formats/pytorch/pickle.hpp"
#include "formats/pytorch/zip.hpp"

namespace bp::pytorch {

using huggingface::invalid;

namespace {

constexpr std::string_view kZipMagic = "PK\3\4";
constexpr std::string_view kPickleName = "/data.pkl";
constexpr uint64_t kMaxByteOrderBytes = 16;

// Where trainers keep a state dict beside other things.
constexpr std::array<std::string_view, 3> kInnerNames = {"state_dict", "model_state_dict", "model"};

using Entries = std::map<std::string, ZipEntry>;

// The folder within the archive that all its entries lie in.
Result<std::string> root_of(const FileBytes& file, const Entries& entries) {
  std::string root;
  for (const auto& [name, entry] : entries) {
    if (!name.ends_with(kPickleName)) continue;
    if (name.find('/') != name.size() - kPickleName.size()) continue;
    if (!root.empty()) return invalid(file.path, "a zip with several data.pkl");
    root = name.substr(0, name.size() - kPickleName.size());
  }
  if (root.empty()) return invalid(file.path, "a zip without a data.pkl: not of torch.save");
  if (entries.count(root + "/constants.pkl") > 0) {
    return unsupported(shortened_path(file.path) +
                       ": a TorchScript module, which is a program: save its state_dict()");
  }
  return root;
}

Status check_byte_order(const FileBytes& file, const Entries& entries, const std::string& root) {
  const auto entry = entries.find(root + "/byteorder");
  if (entry == entries.end()) return {};
  const ZipEntry& at = entry->second;
  BP_ASSIGN(const std::string order,
            file.read(at.offset, std::min(at.n_bytes, kMaxByteOrderBytes)));
  if (order == "little") return {};
  return unsupported(shortened_path(file.path) + ": byte order " + quote(order) +
                     "; read is \"little\": load and save the file on a machine of that order");
}

// Any of the members is a tensor.
bool has_tensors(const Members& members) {
  return std::ranges::any_of(members, [](const auto& member) {
    const Ref* ref = std::get_if<Ref>(&member.second);
    return ref != nullptr && ref->kind == Kind::kTensor;
  });
}

const Members* dict_of(const Value& value, const Arena& arena) {
  const Ref* ref = std::get_if<Ref>(&value);
  const bool is_dict =
      ref != nullptr && (ref->kind == Kind::kDict || ref->kind == Kind::kOrderedDict);
  return is_dict ? &arena.dicts[ref->index] : nullptr;
}

// The root, or the dict of tensors within it.
const Members* find_tensors(const Unpickled& pickle) {
  const Members* root = dict_of(pickle.root, pickle.arena);
  if (root == nullptr || has_tensors(*root)) return root;
  for (const auto& [key, value] : *root) {
    const auto* name = std::get_if<std::string_view>(&key);
    const Members* inner = dict_of(value, pickle.arena);
    const bool is_known = name != nullptr && std::ranges::count(kInnerNames, *name) > 0;
    if (is_known && inner != nullptr && has_tensors(*inner)) return inner;
  }
  return nullptr;
}

class Collector {
 public:
  Collector(const FileBytes& file, const Entries& entries, std::string root)
      : file_(file), entries_(entries), data_(std::move(root) + "/data/") {}

  Result<StateDict> collect(const Members& members, const Arena& arena) {
    StateDict found;
    found.path = file_.path;
    for (const auto& [key, value] : members) {
      const auto* name = std::get_if<std::string_view>(&key);
      const Ref* ref = std::get_if<Ref>(&value);
      if (name == nullptr || ref == nullptr || ref->kind != Kind::kTensor) continue;
      BP_ASSIGN(TensorEntry entry, place(*name, arena.tensors[ref->index]));
      found.tensors.push_back(std::move(entry));
    }
    return check_names(std::move(found));
  }

 private:
  // The interpreter has seen that the tensor lies in its storage; here, that the storage is there.
  Result<TensorEntry> place(std::string_view name, const Tensor& tensor) const {
    if (name.empty() || name.size() > huggingface::kMaxTensorNameBytes) {
      return invalid(file_.path, "a tensor name of " + std::to_string(name.size()) + " bytes");
    }
    const Storage& storage = tensor.storage;
    const auto data = entries_.find(data_ + std::string(storage.key));
    if (data == entries_.end()) {
      return invalid(file_.path, "tensor " + quote(name) + ": its storage " + quote(storage.key) +
                                     " is not in the archive");
    }
    const uint64_t element = dtype_info(tensor.dtype).block_bytes;
    const uint64_t unit = storage.dtype == BP_DTYPE_NONE ? 1 : element;
    if (data->second.n_bytes != storage.n_elements * unit) {
      return invalid(file_.path, "tensor " + quote(name) + ": its storage takes " +
                                     std::to_string(storage.n_elements * unit) +
                                     " bytes, the archive holds " +
                                     std::to_string(data->second.n_bytes));
    }
    TensorEntry entry;
    entry.name = name;
    entry.dtype = tensor.dtype;
    entry.dims = tensor.dims;
    entry.strides = tensor.strides;
    entry.n_elements = 1;
    for (const uint64_t dim : entry.dims) entry.n_elements *= dim;
    if (entry.n_elements > 0) entry.offset = data->second.offset + tensor.offset * element;
    return entry;
  }

  Result<StateDict> check_names(StateDict found) const {
    auto& tensors = found.tensors;
    if (tensors.size() > huggingface::kMaxTensors) return invalid(file_.path, "too many tensors");
    std::ranges::sort(tensors, {}, &TensorEntry::name);
    const auto twice = std::ranges::adjacent_find(tensors, {}, &TensorEntry::name);
    if (twice == tensors.end()) return found;
    return invalid(file_.path, "tensor " + quote(twice->name) + " stands twice");
  }

  const FileBytes& file_;
  const Entries& entries_;
  std::string data_;
};

// Files that are not of torch.save since 1.6.
Status check_magic(const FileBytes& file) {
  BP_ASSIGN(const std::string head, file.read(0, std::min<uint64_t>(file.size, 64)));
  BP_TRY(huggingface::check_lfs_pointer(file.path, head));
  if (head.starts_with(kZipMagic)) return {};
  if (!head.starts_with('\x80')) return invalid(file.path, "no zip archive, as torch.save writes");
  return unsupported(shortened_path(file.path) +
                     ": a bare pickle, as torch before 1.6 wrote; where the file is trusted, load "
                     "it in torch and convert it to safetensors (safetensors.torch.save_file)");
}

}  // namespace

bool TensorEntry::is_contiguous() const {
  uint64_t expected = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    if (dims[d] != 1 && strides[d] != expected) return false;
    expected *= dims[d];
  }
  return true;
}

Result<StateDict> read_state_dict(const FileBytes& file) {
  BP_TRY(check_magic(file));
  BP_ASSIGN(const Entries entries, read_zip(file));
  BP_ASSIGN(const std::string root, root_of(file, entries));
  BP_TRY(check_byte_order(file, entries, root));
  const std::string pickle_name = root + std::string(kPickleName);
  const ZipEntry& at = entries.at(pickle_name);
  if (at.n_bytes > kMaxPickleBytes) {
    return invalid(file.path, "a data.pkl of " + std::to_string(at.n_bytes) +
                                  " bytes; allowed are " + std::to_string(kMaxPickleBytes));
  }
  BP_ASSIGN(const std::string bytes, file.read(at.offset, at.n_bytes));
  BP_ASSIGN(const Unpickled pickle, unpickle(shortened_path(file.path) + ": data.pkl", bytes));
  const Members* members = find_tensors(pickle);
  if (members == nullptr) return invalid(file.path, "holds no dict of tensors");
  return Collector(file, entries, root).collect(*members, pickle.arena);
}

}  // namespace bp::pytorch
