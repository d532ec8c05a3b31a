#include "formats/safetensors/shard.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "backplane/dtype.hpp"
#include "backplane/file.hpp"
#include "backplane/text.hpp"
#include "formats/huggingface/files.hpp"
#include "formats/huggingface/json_reader.hpp"
#include "formats/huggingface/limits.hpp"
#include "formats/safetensors/dtypes.hpp"
#include "formats/safetensors/limits.hpp"

namespace bp::safetensors {

using namespace huggingface;  // limits, JsonReader, invalid

static_assert(std::endian::native == std::endian::little,
              "values are read as they lie in the file");

namespace {

class HeaderReader {
 public:
  HeaderReader(Shard& shard, std::string_view header, uint64_t data_bytes)
      : json_(header, kLengthBytes), shard_(shard), data_bytes_(data_bytes) {}

  Status read() {
    std::string name;
    for (json_.enter_object(); json_.next_member(name);) {
      if (name == "__metadata__") {
        read_notes();
      } else {
        BP_TRY(read_tensor(name));
      }
    }
    json_.expect_end();
    return json_.ok() ? Status() : invalid(shard_.path, json_.fault());
  }

 private:
  void read_notes() {
    std::string key;
    for (json_.enter_object(); json_.next_member(key);) {
      json_.require(json_.peek() == JsonKind::kString, "__metadata__ maps strings to strings");
      shard_.notes[key] = json_.read_string();
    }
  }

  Status read_tensor(const std::string& name) {
    json_.require(!name.empty() && name.size() <= kMaxTensorNameBytes,
                  "a tensor name of " + std::to_string(name.size()) + " bytes");
    json_.require(shard_.tensors.size() < kMaxTensors,
                  "more than " + std::to_string(kMaxTensors) + " tensors");
    TensorEntry tensor;
    tensor.name = name;
    std::string dtype, key;
    bool has_dtype = false, has_shape = false, has_offsets = false;
    for (json_.enter_object(); json_.next_member(key);) {
      if (key == "dtype") {
        dtype = json_.read_string(), has_dtype = true;
      } else if (key == "shape") {
        read_shape(tensor), has_shape = true;
      } else if (key == "data_offsets") {
        read_offsets(tensor), has_offsets = true;
      } else {
        json_.require(false, "unknown member " + quote(key) + " of a tensor");
      }
    }
    json_.require(has_dtype && has_shape && has_offsets,
                  "tensor " + quote(name) + " lacks dtype, shape or data_offsets");
    if (!json_.ok()) return {};  // read() reports the fault
    tensor.dtype = dtype_from_name(dtype);
    if (tensor.dtype == BP_DTYPE_NONE) {
      return unsupported(shortened_path(shard_.path) + ": tensor " + quote(name) +
                         ": unsupported type " + quote(dtype));
    }
    BP_TRY(check_size(tensor));
    shard_.tensors.push_back(std::move(tensor));
    return {};
  }

  void read_shape(TensorEntry& tensor) {
    for (json_.enter_array(); json_.next_element();) {
      const uint64_t dim = json_.read_u64("a dimension");
      json_.require(dim <= kMaxDim, "a dimension of " + std::to_string(dim) +
                                        "; allowed are 0 to " + std::to_string(kMaxDim));
      json_.require(tensor.dims.size() < 64, "more than 64 dimensions");
      tensor.dims.push_back(dim);
    }
  }

  void read_offsets(TensorEntry& tensor) {
    uint64_t ends[2] = {};
    size_t n = 0;
    for (json_.enter_array(); json_.next_element(); ++n) {
      if (!json_.require(n < 2, "data_offsets has more than two values")) return;
      ends[n] = json_.read_u64("an offset");
    }
    json_.require(n == 2, "data_offsets must have two values");
    json_.require(ends[0] <= ends[1], "data_offsets run backwards");
    json_.require(ends[1] <= data_bytes_, "data_offsets end at " + std::to_string(ends[1]) +
                                              ", but the file holds " +
                                              std::to_string(data_bytes_) + " bytes of data");
    tensor.offset = ends[0];  // absolute once all are read
    tensor.n_bytes = json_.ok() ? ends[1] - ends[0] : 0;
  }

  Status check_size(const TensorEntry& tensor) const {
    uint64_t n_elements = 1;
    bool fits = true;
    for (const uint64_t dim : tensor.dims) {
      fits = fits && !__builtin_mul_overflow(n_elements, dim, &n_elements);
    }
    const std::string subject = "tensor " + quote(tensor.name) + ": ";
    if (!fits || n_elements > kMaxElements) {
      return invalid(shard_.path,
                     subject + "more than " + std::to_string(kMaxElements) + " elements");
    }
    const uint64_t expected = row_bytes(tensor.dtype, n_elements);
    if (expected == tensor.n_bytes) return {};
    return invalid(shard_.path, subject + "its shape and type take " + std::to_string(expected) +
                                    " bytes, its data_offsets " + std::to_string(tensor.n_bytes));
  }

  JsonReader json_;
  Shard& shard_;
  uint64_t data_bytes_;
};

// Sorted by offset, the tensors follow each other without hole or overlap up to the file's end.
Status check_tiling(const Shard& shard, uint64_t data_bytes) {
  uint64_t end = 0;
  for (const TensorEntry& tensor : shard.tensors) {
    if (tensor.offset != end) {
      return invalid(shard.path,
                     "tensor " + quote(tensor.name) + ": begins at byte " +
                         std::to_string(tensor.offset) + " of the data, but the tensor before " +
                         (tensor.offset < end ? "overlaps it: it ends at " : "ends at ") +
                         std::to_string(end));
    }
    end += tensor.n_bytes;
  }
  if (end == data_bytes) return {};
  return invalid(shard.path, "the tensors take " + std::to_string(end) +
                                 " bytes of data, the file holds " + std::to_string(data_bytes));
}

}  // namespace

Result<Shard> parse_header(const std::string& path, std::string_view header, uint64_t file_bytes) {
  if (!header.starts_with('{')) {
    return invalid(path, "offset 8: a header must begin with an opening brace");
  }
  Shard shard;
  shard.path = path;
  const uint64_t data_start = kLengthBytes + header.size();
  const uint64_t data_bytes = file_bytes - data_start;
  BP_TRY(HeaderReader(shard, header, data_bytes).read());
  std::stable_sort(shard.tensors.begin(), shard.tensors.end(),
                   [](const TensorEntry& a, const TensorEntry& b) {
                     return std::pair(a.offset, a.n_bytes) < std::pair(b.offset, b.n_bytes);
                   });
  BP_TRY(check_tiling(shard, data_bytes));
  for (TensorEntry& tensor : shard.tensors) tensor.offset += data_start;
  return shard;
}

Result<Shard> read_shard(const std::string& path) {
  BP_ASSIGN(const uint64_t size, file_size(path));
  BP_ASSIGN(const std::string head, read_file(path, 0, std::min<uint64_t>(size, 32)));
  BP_TRY(check_lfs_pointer(path, head));
  if (size < kLengthBytes + 2) {
    return invalid(
        path, "a file of " + std::to_string(size) + " bytes; a safetensors file has at least 10");
  }
  uint64_t length = 0;
  std::memcpy(&length, head.data(), sizeof length);
  if (length > kMaxHeaderBytes || length > size - kLengthBytes) {
    return invalid(path, "offset 0: a header of " + std::to_string(length) +
                             " bytes; allowed are " + std::to_string(kMaxHeaderBytes) +
                             ", and the file has " + std::to_string(size));
  }
  BP_ASSIGN(const std::string header, read_file(path, kLengthBytes, length));
  return parse_header(path, header, size);
}

}  // namespace bp::safetensors
