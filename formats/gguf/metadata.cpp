#include "formats/gguf/metadata.hpp"

#include <algorithm>
#include <string>

#include "backplane/plugin.hpp"
#include "backplane/text.hpp"
#include "formats/gguf/types.hpp"
#include "formats/gguf/unique.hpp"

namespace bp::gguf {

namespace {

class MetadataReader {
 public:
  MetadataReader(Cursor& cursor, std::pmr::memory_resource& arena)
      : cursor_(cursor), arena_(arena) {}

  Result<bp_metadata> read_entry() {
    bp_metadata entry = {};
    const uint64_t start = cursor_.offset();
    BP_ASSIGN(const std::string_view key, cursor_.read_string(1, kMaxKeyBytes, "metadata key"));
    if (!is_text(key)) {
      return cursor_.invalid(start, "metadata key " + quote(key) + " is not UTF-8 without NUL");
    }
    entry.key = to_bp_str(key);
    Status status = read_value(entry);
    if (!status.ok())
      return Status(status.code(), status.message() + " (in key " + quote(key) + ")");
    return entry;
  }

 private:
  Status read_value(bp_metadata& entry) {
    const uint64_t start = cursor_.offset();
    BP_ASSIGN(uint32_t type, cursor_.read<uint32_t>("value type"));
    entry.n = 1;
    if (type == kValueArray) {
      entry.is_array = 1;
      BP_ASSIGN(type, cursor_.read<uint32_t>("element type of an array"));
      if (type == kValueArray) return cursor_.invalid(start, "an array of arrays is not allowed");
      BP_ASSIGN(entry.n, cursor_.read<uint64_t>("length of an array"));
    }
    if (type == kValueString) return read_strings(entry);
    const ScalarType* scalar = scalar_type(type);
    if (scalar == nullptr) {
      return cursor_.invalid(start, "unknown value type " + std::to_string(type));
    }
    return read_scalars(*scalar, entry);
  }

  Status read_scalars(const ScalarType& type, bp_metadata& entry) {
    const uint64_t start = cursor_.offset();
    if (entry.n > cursor_.remaining() / type.file_bytes) return too_many(start, entry.n);
    BP_TRY(cursor_.check(entry.n * type.file_bytes, "value"));
    void* out = nullptr;
    BP_TRY(allocate(start, entry.n, type.memory_bytes, &out));
    BP_ASSIGN(const uint8_t* values, cursor_.take(entry.n * type.file_bytes, "value"));
    if (type.meta_type == BP_META_BOOL) BP_TRY(check_bools(start, values, entry.n));
    type.widen(values, entry.n, out);
    entry.type = type.meta_type;
    entry.data = out;
    return {};
  }

  Status read_strings(bp_metadata& entry) {
    const uint64_t start = cursor_.offset();
    if (entry.n > cursor_.remaining() / sizeof(uint64_t)) return too_many(start, entry.n);
    void* out = nullptr;
    BP_TRY(allocate(start, entry.n, sizeof(bp_str), &out));
    auto* strings = static_cast<bp_str*>(out);
    for (uint64_t i = 0; i < entry.n; ++i) {
      std::string_view text;
      if (!cursor_.try_string(kMaxStringBytes, text)) {
        BP_ASSIGN(text, cursor_.read_string(0, kMaxStringBytes, "string"));
      }
      strings[i] = to_bp_str(text);
    }
    entry.type = BP_META_STRING;
    entry.data = out;
    return {};
  }

  Status check_bools(uint64_t start, const uint8_t* values, uint64_t n) const {
    const uint8_t* wrong = std::find_if(values, values + n, [](uint8_t b) { return b > 1; });
    if (wrong == values + n) return {};
    return cursor_.invalid(start + static_cast<uint64_t>(wrong - values),
                           "a bool is " + std::to_string(*wrong) + "; allowed are 0 and 1");
  }

  // n is bounded by the file's size, so that the product does not overflow.
  Status allocate(uint64_t start, uint64_t n, uint64_t element_bytes, void** out) {
    const uint64_t n_bytes = n * element_bytes;
    if (n_bytes > kMaxMetadataBytes - memory_bytes_) {
      return cursor_.invalid(start, std::to_string(n) + " values bring the metadata to " +
                                        std::to_string(memory_bytes_ + n_bytes) +
                                        " bytes in memory; allowed are " +
                                        std::to_string(kMaxMetadataBytes));
    }
    memory_bytes_ += n_bytes;
    *out = arena_.allocate(n_bytes, alignof(uint64_t));
    return {};
  }

  Status too_many(uint64_t start, uint64_t n) const {
    return cursor_.invalid(
        start, "an array of " + std::to_string(n) + " values is longer than the " +
                   std::to_string(cursor_.remaining()) + " bytes that remain of the file");
  }

  Cursor& cursor_;
  std::pmr::memory_resource& arena_;
  uint64_t memory_bytes_ = 0;
};

}  // namespace

Result<std::vector<bp_metadata>> read_metadata(Cursor& cursor, uint64_t n_key_values,
                                               std::pmr::memory_resource& arena) {
  std::vector<bp_metadata> metadata;
  std::vector<uint64_t> offsets;
  metadata.reserve(n_key_values);
  offsets.reserve(n_key_values);
  MetadataReader reader(cursor, arena);
  cursor.limit_to(kFixedHeaderBytes + kMaxMetadataBytes, "metadata");
  for (uint64_t i = 0; i < n_key_values; ++i) {
    offsets.push_back(cursor.offset());
    BP_ASSIGN(bp_metadata entry, reader.read_entry());
    metadata.push_back(entry);
  }
  if (const auto i = find_duplicate(metadata, [](const bp_metadata& m) { return view(m.key); })) {
    return cursor.invalid(offsets[*i],
                          "metadata key " + quote(view(metadata[*i].key)) + " stands twice");
  }
  return metadata;
}

const bp_metadata* find_metadata(const std::vector<bp_metadata>& metadata, std::string_view key) {
  const auto found = std::find_if(metadata.begin(), metadata.end(),
                                  [&](const bp_metadata& m) { return view(m.key) == key; });
  return found == metadata.end() ? nullptr : &*found;
}

}  // namespace bp::gguf
