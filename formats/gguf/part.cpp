#include "formats/gguf/part.hpp"

#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "backplane/text.hpp"
#include "formats/gguf/cursor.hpp"
#include "formats/gguf/limits.hpp"
#include "formats/gguf/metadata.hpp"
#include "formats/gguf/types.hpp"

namespace bp::gguf {

namespace {

struct Counts {
  uint64_t n_tensors;
  uint64_t n_key_values;
};

Status check_magic(Cursor& cursor) {
  BP_ASSIGN(const uint8_t* start, cursor.take(4, "magic"));
  const std::string_view magic(reinterpret_cast<const char*>(start), 4);
  if (magic == "GGUF") return {};
  if (magic == "vers") {
    return cursor.invalid(0,
                          "not a GGUF file but perhaps a git-lfs pointer to one: fetch the file "
                          "with `git lfs pull`");
  }
  return cursor.invalid(0, "magic is " + quote(magic) + "; a GGUF file begins with \"GGUF\"");
}

Status check_version(Cursor& cursor) {
  const uint64_t start = cursor.offset();
  BP_ASSIGN(const uint32_t version, cursor.read<uint32_t>("version"));
  if (version == 2 || version == 3) return {};
  const uint32_t swapped = __builtin_bswap32(version);
  if (swapped >= 1 && swapped <= 3) {
    return cursor.not_supported(start,
                                "version " + std::to_string(swapped) +
                                    " in big-endian order: convert the file to little-endian");
  }
  return cursor.not_supported(start,
                              "version " + std::to_string(version) + "; supported are 2 and 3");
}

Status check_count(const Cursor& cursor, uint64_t offset, const char* name, uint64_t n,
                   uint64_t max, uint64_t min_entry_bytes) {
  if (n > max) {
    return cursor.invalid(offset, std::string(name) + " is " + std::to_string(n) +
                                      "; allowed are 0 to " + std::to_string(max));
  }
  if (n > cursor.remaining() / min_entry_bytes) {
    return cursor.invalid(offset, std::string(name) + " is " + std::to_string(n) + ", but the " +
                                      std::to_string(cursor.remaining()) +
                                      " bytes that remain hold at most " +
                                      std::to_string(cursor.remaining() / min_entry_bytes));
  }
  return {};
}

Result<Counts> read_fixed_header(Cursor& cursor) {
  if (cursor.remaining() < kFixedHeaderBytes) {
    return cursor.invalid(0, "a file of " + std::to_string(cursor.remaining()) +
                                 " bytes; a GGUF file has at least " +
                                 std::to_string(kFixedHeaderBytes));
  }
  BP_TRY(check_magic(cursor));
  BP_TRY(check_version(cursor));
  Counts counts = {};
  BP_ASSIGN(counts.n_tensors, cursor.read<uint64_t>("n_tensors"));
  BP_ASSIGN(counts.n_key_values, cursor.read<uint64_t>("n_kv"));
  BP_TRY(check_count(cursor, 8, "n_tensors", counts.n_tensors, kMaxTensors, kMinTensorInfoBytes));
  BP_TRY(check_count(cursor, 16, "n_kv", counts.n_key_values, kMaxKeyValues, kMinKeyValueBytes));
  return counts;
}

Result<uint64_t> read_alignment(const Cursor& cursor, const HeaderBytes& bytes,
                                const std::vector<bp_metadata>& metadata) {
  const bp_metadata* entry = find_metadata(metadata, "general.alignment");
  if (entry == nullptr) return uint64_t{kDefaultAlignment};
  // The value's type in the file stands after the key; in memory all widths are one type.
  const char* after_key = entry->key.data + entry->key.size;
  uint32_t file_type = 0;
  std::memcpy(&file_type, after_key, sizeof file_type);
  const auto offset =
      static_cast<uint64_t>(reinterpret_cast<const uint8_t*>(after_key) - bytes.data());
  if (file_type != kValueU32) {
    return cursor.invalid(offset, "general.alignment has value type " + std::to_string(file_type) +
                                      "; it must be 4 (u32)");
  }
  const uint64_t alignment = *static_cast<const uint64_t*>(entry->data);
  if (alignment < 1 || alignment > kMaxAlignment || (alignment & (alignment - 1)) != 0) {
    return cursor.invalid(offset + sizeof file_type, "general.alignment is " +
                                                         std::to_string(alignment) +
                                                         "; allowed are powers of two from 1 to " +
                                                         std::to_string(kMaxAlignment));
  }
  return alignment;
}

}  // namespace

Result<Part> read_part(HeaderBytes bytes) {
  Part part{std::move(bytes), std::make_unique<std::pmr::monotonic_buffer_resource>(), {}, {}};
  Cursor cursor(part.bytes);
  BP_ASSIGN(const Counts counts, read_fixed_header(cursor));
  BP_ASSIGN(part.metadata, read_metadata(cursor, counts.n_key_values, *part.values));
  BP_ASSIGN(const uint64_t alignment, read_alignment(cursor, part.bytes, part.metadata));
  BP_ASSIGN(part.tensors, read_tensor_infos(cursor, counts.n_tensors));
  const uint64_t data_start = (cursor.offset() + alignment - 1) / alignment * alignment;
  BP_TRY(place_tensors(cursor, data_start, alignment, part.bytes.file_bytes(), part.tensors));
  part.bytes.close_file(cursor.offset());
  return part;
}

}  // namespace bp::gguf
