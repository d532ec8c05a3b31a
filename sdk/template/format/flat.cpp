// "flat": a table, then the bytes of the tensors. Numbers are little-endian,
// a text is u64 bytes and the bytes.
//   file:     "BPFLAT01", u64 bytes of the table, the table, tensor bytes
//   table:    u64 n, n entries of metadata, u64 n, n tensors in the order of their bytes
//   metadata: text key, u32 BP_META_*, u32 is_array, u64 n, n values (8 bytes; bool: 1; text)
//   tensor:   text name, u32 BP_DTYPE_*, u32 n_dims, u64 dims[n_dims], u64 offset in the file
#include <deque>
#include <set>

#include "backplane/byte_reader.hpp"
#include "backplane/dtype.hpp"
#include "backplane/file.hpp"
#include "backplane/format.hpp"

namespace {

constexpr std::string_view kMagic = "BPFLAT01";
constexpr uint64_t kHeadBytes = 16;

class Flat final : public bp::ModelFile {
 public:
  static uint32_t probe(std::string_view, bool is_folder, std::span<const uint8_t> head) {
    const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
    return !is_folder && text.starts_with(kMagic) ? 100 : 0;
  }
  static bp::Result<std::unique_ptr<ModelFile>> open(const bp::Host&, const std::string& path) {
    BP_ASSIGN(const uint64_t file_end, bp::file_size(path));
    BP_ASSIGN(const std::string head, bp::read_file(path, 0, kHeadBytes));
    if (!head.starts_with(kMagic)) return bp::invalid_argument(path + ": is not flat");
    const auto n = bp::ByteReader(std::string_view(head).substr(8)).number<uint64_t>();
    BP_ASSIGN(std::string table, bp::read_file(path, kHeadBytes, n));
    auto flat = std::make_unique<Flat>(std::move(table), file_end);
    flat->dialect = "gguf";
    flat->files = {path};
    bp::ByteReader& in = flat->in_;
    for (auto i = in.number<uint64_t>(); i > 0 && in.ok(); --i) flat->read_metadata();
    for (auto i = in.number<uint64_t>(); i > 0 && in.ok(); --i) flat->read_tensor();
    in.require(in.left() == 0, "the table must end here");
    if (!in.ok()) return bp::invalid_argument(path + ": " + in.fault());
    return std::unique_ptr<ModelFile>(std::move(flat));
  }
  Flat(std::string table, uint64_t file_end) : table_(std::move(table)), file_end_(file_end) {}

 private:
  bp_str name() {
    const bp_str name = in_.text();
    in_.require(names_.insert(bp::view(name)).second, "every name stands once");
    return name;
  }
  void read_metadata() {
    bp_metadata& m = metadata.emplace_back();
    m = {name(), in_.number<uint32_t>(), in_.number<uint32_t>(), in_.number<uint64_t>(), nullptr};
    const uint64_t least_bytes = m.type == BP_META_BOOL ? 1 : 8;  // of a value
    in_.require(m.is_array == 1 || (m.is_array == 0 && m.n == 1), "a scalar has one value");
    in_.require(m.type - 1 < BP_META_STRING, "no such type of value");
    if (!in_.require(m.n <= in_.left() / least_bytes, "its values must lie in the table")) return;
    if (m.type == BP_META_STRING) {
      m.data = texts_.emplace_back(m.n).data();
      for (bp_str& text : texts_.back()) text = in_.text();
      return;
    }
    const std::string_view bytes(in_.take(m.n * least_bytes), m.n * least_bytes);
    m.data = numbers_.emplace_back(m.n + 1).data();  // aligned, and never null
    bytes.copy(reinterpret_cast<char*>(numbers_.back().data()), bytes.size());
    in_.require(m.type != BP_META_BOOL || bytes.find_first_not_of({"\0\1", 2}) == bytes.npos,
                "a bool must be 0 or 1");
  }
  void read_tensor() {
    bp_tensor& t = tensors.emplace_back();
    t.name = name();
    t.dtype = in_.number<uint32_t>();
    t.n_dims = in_.number<uint32_t>();
    if (!in_.require(t.n_dims - 1 < BP_MAX_DIMS, "1 to 4 dimensions")) return;
    for (uint32_t d = 0; d < t.n_dims; ++d) t.dims[d] = in_.number<uint64_t>();
    const auto n_bytes = bp::tensor_bytes(t.dtype, {t.dims, t.n_dims});
    if (!in_.require(n_bytes.has_value(), "no such type, or dimensions out of range")) return;
    t.n_bytes = *n_bytes;
    t.row_stride_bytes = bp::row_bytes(t.dtype, t.dims[t.n_dims - 1]);
    t.offset = in_.number<uint64_t>();
    const bool inside = t.offset <= file_end_ && t.n_bytes <= file_end_ - t.offset;
    in_.require(t.offset >= tensor_end_ && inside, "must follow the last, and lie in the file");
    tensor_end_ = t.offset + t.n_bytes;
  }

  std::string table_;
  bp::ByteReader in_{table_, kHeadBytes};
  uint64_t file_end_;
  uint64_t tensor_end_ = kHeadBytes + table_.size();  // of the last tensor read
  std::set<std::string_view> names_;                  // of metadata and tensors
  std::deque<std::vector<uint64_t>> numbers_;
  std::deque<std::vector<bp_str>> texts_;
};

constexpr bp_format kFormat = bp::format_factory<Flat>();

}  // namespace

BP_PLUGIN("flat", "1.0.0", {BP_FORMAT_ID, &kFormat});
