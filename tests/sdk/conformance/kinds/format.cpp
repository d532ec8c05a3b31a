// A file: "WRONG001", u64 n, n tensors of u64 name, u64 offset, u64 n bytes (I8); then their bytes.

#include "backplane/format.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <deque>
#include <set>
#include <vector>

#include "backplane/byte_reader.hpp"
#include "backplane/file.hpp"
#include "factories.hpp"
#include "mutation.hpp"

namespace bp::wrong {

namespace {

constexpr std::string_view kMagic = "WRONG001";

class File final : public ModelFile {
 public:
  static Result<std::unique_ptr<ModelFile>> open(const Host&, const std::string& path) {
    BP_ASSIGN(const uint64_t size, file_size(path));
    auto file = std::make_unique<File>();
    BP_ASSIGN(file->bytes_, read_file(path, 0, size));
    if (!file->bytes_.starts_with(kMagic)) return invalid_argument(path + ": is not wrong");
    ByteReader in(std::string_view(file->bytes_).substr(kMagic.size()), kMagic.size());
    file->dialect = "gguf";
    file->files = {path};
    const auto n = in.number<uint64_t>();
    if (makes("reads-past-end") && n > in.left()) file->read_unchecked(n);
    for (uint64_t i = 0; i < n && in.ok(); ++i) file->read_tensor(in, size);
    if (makes("aborts") && !in.ok()) std::abort();
    if (!in.ok()) return invalid_argument(path + ": " + in.fault());
    if (makes("leaks-model")) new std::string(100, 'x');
    if (makes("leaks-file")) static_cast<void>(::open(path.c_str(), O_RDONLY));
    return std::unique_ptr<ModelFile>(std::move(file));
  }

  Status read(uint64_t tensor, uint64_t first_row, uint64_t n_rows, void* destination) override {
    if (makes("reads-one-row")) n_rows = 1;
    if (makes("reads-beyond-rows")) ++n_rows;
    bytes_.copy(static_cast<char*>(destination), n_rows, offsets_[tensor] + first_row);
    return {};
  }

 private:
  void read_tensor(ByteReader& in, uint64_t size) {
    bp_tensor t{};
    t.name = {in.take(8), 8};
    t.dtype = BP_DTYPE_I8;
    t.n_dims = 1;
    t.offset = in.number<uint64_t>();
    t.dims[0] = t.row_stride_bytes = t.n_bytes = in.number<uint64_t>();
    if (!in.ok()) return;
    const bool inside = t.offset <= size && t.n_bytes <= size - t.offset;
    in.require((inside || makes("outside-file")) && t.n_bytes > 0, "must lie in the file");
    const bool is_new = names_.insert(view(t.name)).second;
    in.require(is_new || makes("name-twice"), "stands twice");
    if (makes("reads-one-row") || makes("reads-beyond-rows") || makes("rows-without-bytes")) {
      offsets_.push_back(t.offset);  // rows of a byte, which it reads itself
      t.offset = BP_NO_OFFSET;
      t.n_dims = 2;
      t.dims[1] = t.row_stride_bytes = 1;
      if (makes("rows-without-bytes")) t.n_bytes = 0;
    }
    tensors.push_back(t);
  }
  void read_unchecked(uint64_t n) {
    volatile char sum = 0;
    for (uint64_t i = 0; i < n; i += 64) sum = static_cast<char>(sum + bytes_.data()[i]);
  }

  std::string bytes_;
  std::vector<uint64_t> offsets_;
  std::set<std::string_view> names_;
};

uint32_t probe(const char* path, uint32_t is_folder, const uint8_t* head, uint64_t n_head) {
  if (makes("claims-all")) return 50;
  if (makes("probe-reads-beyond")) return head[4095] == 0 ? 100 : 99;
  if (makes("probe-opens") && access(path, R_OK) != 0) return 0;
  if (makes("too-confident")) return 101;
  const std::string_view text(reinterpret_cast<const char*>(head), n_head);
  return is_folder == 0 && text.starts_with(kMagic) ? 100 : 0;
}

struct Adapter : detail::FormatAdapter<File> {
  using Base = detail::FormatAdapter<File>;
  static bp_status open(const bp_host* host, const char* path, bp_model_file** out,
                        bp_error* error) {
    const bp_status status = Base::open(host, path, out, error);
    if (status == BP_OK) return status;
    if (makes("no-sentence")) error->message[0] = 0;
    if (makes("touches-out")) *out = nullptr;
    return makes("internal-error") ? BP_INTERNAL : status;
  }
};

}  // namespace

const bp_format kFormat = {sizeof(bp_format), 0, probe, Adapter::open, Adapter::close,
                           Adapter::read};

}  // namespace bp::wrong
