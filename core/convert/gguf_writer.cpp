#include "core/convert/gguf_writer.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <limits>

#include <fmt/format.h>

#include "backplane/dtype.hpp"
#include "backplane/plugin.hpp"

namespace bp::convert {

namespace {

// Numbers of GGUF's value types.
constexpr uint32_t kU8 = 0, kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7, kString = 8, kArray = 9;
constexpr uint32_t kU64 = 10, kI64 = 11;

// The numbers of element types in GGUF files.
constexpr std::array<uint32_t, BP_DTYPE_COUNT> make_ggml_types() {
  constexpr uint32_t kNone = UINT32_MAX;
  std::array<uint32_t, BP_DTYPE_COUNT> t{};
  t.fill(kNone);
  constexpr bp_dtype kByNumber[] = {
      BP_DTYPE_F32,    BP_DTYPE_F16,     BP_DTYPE_Q4_0,   BP_DTYPE_Q4_1,    BP_DTYPE_NONE,
      BP_DTYPE_NONE,   BP_DTYPE_Q5_0,    BP_DTYPE_Q5_1,   BP_DTYPE_Q8_0,    BP_DTYPE_Q8_1,
      BP_DTYPE_Q2_K,   BP_DTYPE_Q3_K,    BP_DTYPE_Q4_K,   BP_DTYPE_Q5_K,    BP_DTYPE_Q6_K,
      BP_DTYPE_Q8_K,   BP_DTYPE_IQ2_XXS, BP_DTYPE_IQ2_XS, BP_DTYPE_IQ3_XXS, BP_DTYPE_IQ1_S,
      BP_DTYPE_IQ4_NL, BP_DTYPE_IQ3_S,   BP_DTYPE_IQ2_S,  BP_DTYPE_IQ4_XS,  BP_DTYPE_I8,
      BP_DTYPE_I16,    BP_DTYPE_I32,     BP_DTYPE_I64,    BP_DTYPE_F64,     BP_DTYPE_IQ1_M,
      BP_DTYPE_BF16,   BP_DTYPE_NONE,    BP_DTYPE_NONE,   BP_DTYPE_NONE,    BP_DTYPE_TQ1_0,
      BP_DTYPE_TQ2_0,  BP_DTYPE_NONE,    BP_DTYPE_NONE,   BP_DTYPE_NONE,    BP_DTYPE_MXFP4,
      BP_DTYPE_NVFP4,  BP_DTYPE_Q1_0,    BP_DTYPE_Q2_0};
  for (uint32_t number = 0; number < std::size(kByNumber); ++number) {
    if (kByNumber[number] != BP_DTYPE_NONE) t[kByNumber[number]] = number;
  }
  return t;
}
constexpr auto kGgmlTypes = make_ggml_types();

template <class T>
void append_number(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_string(std::string& bytes, std::string_view text) {
  append_number<uint64_t>(bytes, text.size());
  bytes.append(text);
}

template <class From, class To>
void append_values(std::string& bytes, const bp_metadata& entry) {
  const auto* values = static_cast<const From*>(entry.data);
  for (uint64_t i = 0; i < entry.n; ++i) append_number(bytes, static_cast<To>(values[i]));
}

template <class From, class Narrow>
bool all_fit(const bp_metadata& entry) {
  const auto* values = static_cast<const From*>(entry.data);
  return std::all_of(values, values + entry.n,
                     [](From value) { return std::in_range<Narrow>(value); });
}

// The value type of an entry's elements.
uint32_t value_type(const bp_metadata& entry) {
  switch (entry.type) {
    case BP_META_U64:
      // The one array of bytes that readers know must stay one.
      if (view(entry.key).ends_with("precompiled_charsmap")) return kU8;
      return all_fit<uint64_t, uint32_t>(entry) ? kU32 : kU64;
    case BP_META_I64:
      if (view(entry.key).ends_with("precompiled_charsmap")) return kU8;
      return all_fit<int64_t, int32_t>(entry) ? kI32 : kI64;
    case BP_META_F64:
      return kF32;
    case BP_META_BOOL:
      return kBool;
    default:
      return kString;
  }
}

void append_all(std::string& bytes, const bp_metadata& entry, uint32_t type) {
  switch (type) {
    case kU8:
      return append_values<uint64_t, uint8_t>(bytes, entry);
    case kU32:
      return append_values<uint64_t, uint32_t>(bytes, entry);
    case kU64:
      return append_values<uint64_t, uint64_t>(bytes, entry);
    case kI32:
      return append_values<int64_t, int32_t>(bytes, entry);
    case kI64:
      return append_values<int64_t, int64_t>(bytes, entry);
    case kF32:
      return append_values<double, float>(bytes, entry);
    case kBool:
      return append_values<uint8_t, uint8_t>(bytes, entry);
    default:
      for (uint64_t i = 0; i < entry.n; ++i) {
        append_string(bytes, view(static_cast<const bp_str*>(entry.data)[i]));
      }
  }
}

uint64_t aligned(uint64_t n, uint64_t alignment) {
  return (n + alignment - 1) / alignment * alignment;
}

}  // namespace

void GgufMetadata::begin(std::string_view key, uint32_t type) {
  ++n_entries_;
  append_string(bytes_, key);
  append_number(bytes_, type);
}

void GgufMetadata::put(const bp_metadata& entry) {
  const uint32_t type = value_type(entry);
  begin(view(entry.key), entry.is_array != 0 ? kArray : type);
  if (entry.is_array != 0) {
    append_number(bytes_, type);
    append_number(bytes_, entry.n);
  }
  append_all(bytes_, entry, type);
}

void GgufMetadata::put(std::string_view key, uint32_t value) {
  begin(key, kU32);
  append_number(bytes_, value);
}

void GgufMetadata::put(std::string_view key, std::string_view value) {
  begin(key, kString);
  append_string(bytes_, value);
}

void GgufMetadata::put(std::string_view key, std::span<const std::string> values) {
  begin(key, kArray);
  append_number(bytes_, kString);
  append_number<uint64_t>(bytes_, values.size());
  for (const std::string& value : values) append_string(bytes_, value);
}

Result<GgufWriter> GgufWriter::create(const std::string& path) {
  BP_ASSIGN(UnfinishedFile file, UnfinishedFile::create(path));
  return GgufWriter(std::move(file));
}

Status GgufWriter::write(const void* data, uint64_t n_bytes) {
  if (std::fwrite(data, 1, n_bytes, file_.get()) != n_bytes) return file_.failure("writing");
  n_written_ += n_bytes;
  return {};
}

Status GgufWriter::pad() {
  static constexpr std::array<char, 1 << 16> kZeros{};
  return write(kZeros.data(), aligned(n_written_, alignment_) - n_written_);
}

Status GgufWriter::begin(const GgufMetadata& metadata, std::span<const GgufTensor> tensors,
                         uint64_t alignment) {
  alignment_ = alignment;
  std::string head = "GGUF";
  append_number<uint32_t>(head, 3);
  append_number<uint64_t>(head, tensors.size());
  append_number<uint64_t>(head, metadata.n_entries());
  head += metadata.bytes();
  uint64_t offset = 0;
  for (const GgufTensor& tensor : tensors) {
    const uint32_t type = is_known_dtype(tensor.dtype) ? kGgmlTypes[tensor.dtype] : UINT32_MAX;
    const auto bytes = tensor_bytes(tensor.dtype, tensor.dims);
    if (type == UINT32_MAX || !bytes) {
      return unsupported(fmt::format("{}: tensor '{}' of type {} has no place in a GGUF file",
                                     file_.path(), tensor.name, dtype_name(tensor.dtype)));
    }
    append_string(head, tensor.name);
    append_number(head, static_cast<uint32_t>(tensor.dims.size()));
    for (auto dim = tensor.dims.rbegin(); dim != tensor.dims.rend(); ++dim)
      append_number(head, *dim);
    append_number(head, type);
    append_number(head, offset);
    offset += aligned(*bytes, alignment);
    tensor_bytes_.push_back(*bytes);
  }
  BP_TRY(write(head.data(), head.size()));
  return pad();
}

Status GgufWriter::append(const void* data, uint64_t n_bytes) {
  const auto* bytes = static_cast<const char*>(data);
  while (n_bytes > 0) {
    assert(tensor_ < tensor_bytes_.size());
    const uint64_t n = std::min(n_bytes, tensor_bytes_[tensor_] - n_appended_);
    BP_TRY(write(bytes, n));
    bytes += n;
    n_bytes -= n;
    n_appended_ += n;
    if (n_appended_ < tensor_bytes_[tensor_]) continue;
    ++tensor_;
    n_appended_ = 0;
    BP_TRY(pad());
  }
  return {};
}

Status GgufWriter::finish() {
  assert(tensor_ == tensor_bytes_.size());
  return file_.finish();
}

}  // namespace bp::convert
