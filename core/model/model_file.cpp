#include "core/model/model_file.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <new>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backplane/dtype.hpp"
#include "backplane/json_metadata.hpp"
#include "backplane/plugin.hpp"
#include "core/base/nearest.hpp"
#include "core/plugin/call.hpp"

namespace bp::model {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kSmallBytes = 64 << 10;  // norms, biases
constexpr size_t kSampledTensors = 32;
constexpr uint64_t kSampleBytes = 64;
constexpr uint64_t kPieceBytes = 16 << 20;  // of a tensor that is read: part of a second

struct Head {
  bool is_folder = false;
  std::vector<uint8_t> bytes;
};

Result<Head> read_head(const std::string& path) {
  Head head;
  std::error_code error;
  const auto status = fs::status(path, error);
  if (!fs::exists(status)) return io_error(path + ": no such file or folder");
  head.is_folder = fs::is_directory(status);
  if (head.is_folder) return head;
  if (!fs::is_regular_file(status)) return io_error(path + ": neither a file nor a folder");
  std::ifstream in(path, std::ios::binary);
  if (!in) return io_error(path + ": cannot be opened");
  head.bytes.resize(4096);
  in.read(reinterpret_cast<char*>(head.bytes.data()), 4096);
  if (in.bad()) return io_error(path + ": cannot be read");
  head.bytes.resize(static_cast<size_t>(in.gcount()));
  return head;
}

std::vector<std::string> ids_of(std::span<const FormatChoice> formats) {
  std::vector<std::string> ids;
  for (const auto& choice : formats) ids.push_back(choice.id);
  return ids;
}

// 0 where the plugin throws, which it must not: it does not know the file then.
uint32_t probe(const bp_format& format, const std::string& path, const Head& head) {
  constexpr uint32_t kSure = 100;
  uint32_t confidence = 0;
  const Status called = plugin::call([&](bp_error*) {
    confidence =
        format.probe(path.c_str(), head.is_folder ? 1 : 0, head.bytes.data(), head.bytes.size());
    return BP_OK;
  });
  return called.ok() ? std::min(confidence, kSure) : 0;
}

Result<const FormatChoice*> choose(const std::string& path, std::span<const FormatChoice> formats,
                                   const std::string& wanted) {
  BP_ASSIGN(const Head head, read_head(path));
  const FormatChoice* best = nullptr;
  uint32_t best_confidence = 0;
  for (const FormatChoice& choice : formats) {
    if (wanted == choice.id) return &choice;
    const bp_format table = copy_growable(choice.factory);
    if (wanted != "auto" || table.probe == nullptr) continue;
    const uint32_t confidence = probe(table, path, head);
    if (confidence <= best_confidence) continue;
    best = &choice;
    best_confidence = confidence;
  }
  if (best != nullptr) return best;
  const auto ids = ids_of(formats);
  if (wanted != "auto") {
    return invalid_argument(
        fmt::format("format '{}' is unknown{}", wanted, base::nearest_hint(wanted, ids)));
  }
  return invalid_argument(
      fmt::format("{}: in no known format (tried: {})", path,
                  ids.empty() ? "none" : fmt::format("{}", fmt::join(ids, ", "))));
}

// FNV-1a, 64 bit.
class Hash {
 public:
  void add(const void* data, size_t n_bytes) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (size_t i = 0; i < n_bytes; ++i) hash_ = (hash_ ^ bytes[i]) * 0x100000001b3u;
  }
  void add(std::string_view text) {
    add_number(text.size());
    add(text.data(), text.size());
  }
  void add_number(uint64_t number) { add(&number, sizeof number); }
  [[nodiscard]] uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325u;
};

// Bytes that the dims, type and stride of a tensor span, or an error.
Result<uint64_t> spanned_bytes(const bp_tensor& tensor) {
  if (!is_known_dtype(tensor.dtype)) {
    return invalid_argument(fmt::format("has the unknown element type {}", tensor.dtype));
  }
  if (tensor.n_dims > BP_MAX_DIMS) {
    return invalid_argument(fmt::format("has {} dimensions", tensor.n_dims));
  }
  uint64_t rows = 1, width = 1, bytes = 0;
  bool fits = true;
  for (uint32_t d = 0; d < tensor.n_dims; ++d) {
    uint64_t& product = d + 1 == tensor.n_dims ? width : rows;
    fits =
        fits && tensor.dims[d] != 0 && !__builtin_mul_overflow(product, tensor.dims[d], &product);
  }
  if (!fits || width % dtype_info(tensor.dtype).block_elements != 0 ||
      width > (uint64_t{1} << 48)) {
    return invalid_argument(fmt::format("has dimensions {}, which {} cannot hold",
                                        dims_text(dims_of(tensor)), dtype_name(tensor.dtype)));
  }
  const uint64_t row = row_bytes(tensor.dtype, width);
  if (rows > 1 && tensor.row_stride_bytes < row) {
    return invalid_argument(
        fmt::format("has rows of {} bytes, {} bytes apart", row, tensor.row_stride_bytes));
  }
  fits = !__builtin_mul_overflow(rows - 1, tensor.row_stride_bytes, &bytes) &&
         !__builtin_add_overflow(bytes, row, &bytes);
  if (!fits || bytes > tensor.n_bytes) {
    return invalid_argument(fmt::format("has dimensions {} of {} in {} bytes",
                                        dims_text(dims_of(tensor)), dtype_name(tensor.dtype),
                                        tensor.n_bytes));
  }
  return bytes;
}

uint64_t rows_of(const bp_tensor& tensor) {
  uint64_t rows = 1;
  for (uint32_t d = 0; d + 1 < tensor.n_dims; ++d) rows *= tensor.dims[d];
  return rows;
}

// Without gaps between rows.
uint64_t bytes_in(const bp_tensor& tensor) {
  const uint64_t width = tensor.n_dims == 0 ? 1 : tensor.dims[tensor.n_dims - 1];
  return rows_of(tensor) * row_bytes(tensor.dtype, width);
}

}  // namespace

std::string dims_text(std::span<const uint64_t> dims) {
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

Result<std::unique_ptr<ModelFile>> ModelFile::open(const std::string& path,
                                                   std::span<const FormatChoice> formats,
                                                   const std::string& format, const bp_host* host) {
  std::error_code code;
  const std::string absolute = fs::absolute(path, code).lexically_normal().string();
  BP_ASSIGN(const FormatChoice* choice, choose(code ? path : absolute, formats, format));
  const bp_format table = copy_growable(choice->factory);
  if (table.open == nullptr || table.close == nullptr) {
    return invalid_argument(fmt::format("format '{}' lacks open or close", choice->id));
  }
  bp_model_file* opened = nullptr;
  BP_TRY(plugin::call(
      [&](bp_error* error) { return table.open(host, absolute.c_str(), &opened, error); }));
  if (opened == nullptr) {
    return internal_error(fmt::format("format '{}' opened nothing", choice->id));
  }
  std::unique_ptr<ModelFile> file(new ModelFile(absolute, choice->id, table, opened));
  file->keep_tensors();
  BP_TRY(file->check_tables());
  BP_TRY(file->map_files());
  return file;
}

ModelFile::ModelFile(std::string path, std::string format_id, bp_format format,
                     bp_model_file* opened)
    : path_(std::move(path)),
      format_id_(std::move(format_id)),
      format_(format),
      opened_(opened),
      file_(copy_growable(opened)),
      dialect_(file_.dialect == nullptr ? "" : file_.dialect) {}

ModelFile::~ModelFile() {
  if (opened_ != nullptr) format_.close(opened_);
}

void ModelFile::keep_tensors() {
  tensors_.assign(file_.tensors, file_.tensors + file_.n_tensors);
  size_t n_bytes = 0;
  for (const bp_tensor& tensor : tensors_) n_bytes += tensor.name.size;
  tensor_names_.reserve(n_bytes);
  for (bp_tensor& tensor : tensors_) {
    const size_t begin = tensor_names_.size();
    tensor_names_.append(view(tensor.name));
    tensor.name.data = tensor_names_.data() + begin;
  }
}

Status ModelFile::check_tables() {
  metadata_by_key_.reserve(file_.n_metadata);
  for (const bp_metadata& entry : metadata().entries()) {
    metadata_by_key_.emplace(view(entry.key), &entry);
  }
  tensors_by_name_.reserve(file_.n_tensors);
  for (const bp_tensor& tensor : tensors()) {
    const std::string name(view(tensor.name));
    if (auto spanned = spanned_bytes(tensor); !spanned.ok()) {
      return invalid_argument(
          fmt::format("{}: tensor '{}' {}", path_, name, spanned.status().message()));
    }
    if (tensor.offset != BP_NO_OFFSET && tensor.file >= file_.n_files) {
      return invalid_argument(fmt::format("{}: tensor '{}' is in file {} of {}", path_, name,
                                          tensor.file, file_.n_files));
    }
    if (!tensors_by_name_.emplace(view(tensor.name), &tensor).second) {
      return invalid_argument(fmt::format("{}: tensor '{}' is there twice", path_, name));
    }
  }
  return {};
}

Status ModelFile::map_files() {
  for (uint32_t i = 0; i < file_.n_files; ++i) {
    const bool used = std::any_of(tensors().begin(), tensors().end(), [&](const bp_tensor& t) {
      return t.offset != BP_NO_OFFSET && t.file == i;
    });
    mappings_.push_back(nullptr);
    if (!used) continue;
    BP_ASSIGN(mappings_.back(), Mapping::open(file_.files[i]));
  }
  for (const bp_tensor& tensor : tensors()) {
    if (tensor.offset == BP_NO_OFFSET) continue;
    const uint64_t size = mappings_[tensor.file]->bytes().size();
    if (tensor.offset <= size && tensor.n_bytes <= size - tensor.offset) continue;
    return invalid_argument(fmt::format(
        "{}: tensor '{}' at offset {} with {} bytes lies beyond the end of the file ({} bytes)",
        mappings_[tensor.file]->path(), view(tensor.name), tensor.offset, tensor.n_bytes, size));
  }
  ask_for_small_parts();
  return {};
}

// Touched one after another, each would be waited for, with megabytes around it that nobody reads.
void ModelFile::ask_for_small_parts() const {
  for (const bp_tensor& tensor : tensors()) {
    const bool is_small = tensor.offset != BP_NO_OFFSET && tensor.n_bytes <= kSmallBytes;
    if (is_small) mappings_[tensor.file]->ask_for(tensor.offset, tensor.n_bytes);
  }
  for (const Sample& sample : samples())
    mappings_[sample.file]->ask_for(sample.offset, sample.n_bytes);
}

const bp_metadata* ModelFile::find_metadata(std::string_view key) const {
  const auto it = metadata_by_key_.find(key);
  return it == metadata_by_key_.end() ? nullptr : it->second;
}

bool ModelFile::is_null(std::string_view key) const {
  const auto nulls = metadata().array<std::string_view>(kNullKeys);
  for (uint64_t i = 0; nulls.ok() && i < nulls->size(); ++i) {
    if ((*nulls)[i] == key) return true;
  }
  return false;
}

const bp_tensor* ModelFile::find_tensor(std::string_view name) const {
  const auto it = tensors_by_name_.find(name);
  return it == tensors_by_name_.end() ? nullptr : it->second;
}

Result<TensorData> ModelFile::data(const bp_tensor& tensor, base::WorkProgress* progress) {
  if (tensor.offset == BP_NO_OFFSET) return read(tensor, progress);
  const std::byte* first = mappings_[tensor.file]->bytes().data() + tensor.offset;
  return TensorData{&tensor, first, tensor.row_stride_bytes, tensor.n_bytes};
}

void ModelFile::release(const bp_tensor& tensor) {
  if (tensor.offset != BP_NO_OFFSET) {
    mappings_[tensor.file]->drop(tensor.offset, tensor.n_bytes);
    return;
  }
  const std::lock_guard lock(read_mutex_);
  read_.erase(&tensor);
}

void ModelFile::forget_metadata() {
  const auto is_read = [](const bp_tensor& tensor) { return tensor.offset == BP_NO_OFFSET; };
  if (opened_ == nullptr || std::ranges::any_of(tensors_, is_read)) return;
  metadata_by_key_.clear();
  format_.close(opened_);
  opened_ = nullptr;
  file_ = {};
}

uint64_t ModelFile::held_bytes() {
  const std::lock_guard lock(read_mutex_);
  uint64_t n_bytes = 0;
  for (const auto& [tensor, bytes] : read_) n_bytes += bytes == nullptr ? 0 : bytes_in(*tensor);
  return n_bytes;
}

// What is read may be converted as well, so that it takes its time. Nobody to be told: all at once,
// since a format may make more than is asked for.
Status ModelFile::read_rows(const bp_tensor& tensor, uint64_t row, std::byte* to,
                            base::WorkProgress* progress) {
  const auto index = static_cast<uint64_t>(&tensor - tensors_.data());
  const uint64_t n_rows = rows_of(tensor);
  const uint64_t n_piece = progress == nullptr ? n_rows : std::max<uint64_t>(1, kPieceBytes / row);
  for (uint64_t first = 0; first < n_rows; first += n_piece) {
    if (progress != nullptr) BP_TRY(progress->add(0));
    const uint64_t n = std::min(n_piece, n_rows - first);
    BP_TRY(plugin::call([&](bp_error* error) {
      return format_.read(opened_, index, first, n, to + first * row, error);
    }));
  }
  return {};
}

Result<TensorData> ModelFile::read(const bp_tensor& tensor, base::WorkProgress* progress) {
  const std::lock_guard lock(read_mutex_);
  const uint64_t rows = rows_of(tensor), row = bytes_in(tensor) / rows;
  auto& bytes = read_[&tensor];
  if (bytes != nullptr) return TensorData{&tensor, bytes.get(), row, rows * row};
  const std::string place = fmt::format("{}: tensor '{}'", path_, view(tensor.name));
  if (format_.read == nullptr)
    return invalid_argument(place + " has no offset, and its format no read");
  bytes.reset(new (std::nothrow) std::byte[rows * row]);
  if (bytes == nullptr) return out_of_memory(fmt::format("{}: {} bytes", place, rows * row));
  const Status status = read_rows(tensor, row, bytes.get(), progress);
  if (!status.ok()) {
    bytes.reset();
    return status.with_context(place);
  }
  return TensorData{&tensor, bytes.get(), row, rows * row};
}

std::vector<ModelFile::Sample> ModelFile::samples() const {
  std::vector<Sample> samples;
  const size_t step = tensors_.size() / kSampledTensors + 1;
  for (size_t i = 0; i < tensors_.size(); i += step) {
    const bp_tensor& tensor = tensors_[i];
    if (tensor.offset == BP_NO_OFFSET) continue;
    const uint64_t middle = tensor.n_bytes / 2;
    samples.push_back(
        {tensor.file, tensor.offset + middle, std::min(kSampleBytes, tensor.n_bytes - middle)});
  }
  return samples;
}

bool ModelFile::maps(const std::string& path) const {
  std::error_code ignored;
  return std::ranges::any_of(mappings_, [&](const std::unique_ptr<Mapping>& mapping) {
    return mapping != nullptr && std::filesystem::equivalent(mapping->path(), path, ignored);
  });
}

std::string ModelFile::content_key() const {
  Hash hash;
  hash.add(path_);
  for (const auto& mapping : mappings_) {
    if (mapping == nullptr) continue;
    hash.add(mapping->path());
    hash.add_number(mapping->bytes().size());
    hash.add_number(static_cast<uint64_t>(mapping->modified_ns()));
  }
  for (const bp_metadata& entry : metadata().entries()) hash.add(view(entry.key));
  for (const bp_tensor& tensor : tensors()) {
    hash.add(view(tensor.name));
    hash.add(tensor.dims, tensor.n_dims * sizeof tensor.dims[0]);
    for (const uint64_t n : {uint64_t{tensor.dtype}, tensor.offset, tensor.n_bytes}) {
      hash.add_number(n);
    }
  }
  // Files are copied with their times; a page of some tensors tells what differs.
  for (const Sample& sample : samples()) {
    hash.add(mappings_[sample.file]->bytes().data() + sample.offset, sample.n_bytes);
  }
  return fmt::format("{:016x}", hash.value());
}

}  // namespace bp::model
