#include "formats/gguf/split.hpp"

#include <array>
#include <charconv>
#include <cstdio>
#include <utility>

#include "backplane/plugin.hpp"
#include "backplane/text.hpp"
#include "formats/gguf/limits.hpp"
#include "formats/gguf/metadata.hpp"
#include "formats/gguf/unique.hpp"

namespace bp::gguf {

namespace {

constexpr std::string_view kIndexKey = "split.no";
constexpr std::string_view kCountKey = "split.count";
constexpr std::string_view kTensorsKey = "split.tensors.count";
constexpr size_t kDigits = 5;

std::optional<uint32_t> parse_digits(std::string_view text) {
  uint32_t value = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

Status invalid(const Part& part, std::string_view key, const std::string& rule) {
  const bp_metadata* entry = find_metadata(part.metadata, key);
  const char* start = reinterpret_cast<const char*>(part.bytes.data());
  const auto offset = entry == nullptr ? 0 : static_cast<uint64_t>(entry->key.data - start);
  return invalid_argument(part.bytes.message(offset, rule));
}

Result<uint64_t> read_count(const Part& part, std::string_view key) {
  const bp_metadata* entry = find_metadata(part.metadata, key);
  if (entry == nullptr)
    return invalid(part, key, "a part of a split model lacks " + std::string(key));
  if (entry->is_array == 0 && entry->type == BP_META_U64) {
    return *static_cast<const uint64_t*>(entry->data);
  }
  if (entry->is_array == 0 && entry->type == BP_META_I64) {
    const int64_t value = *static_cast<const int64_t*>(entry->data);
    if (value >= 0) return static_cast<uint64_t>(value);
  }
  return invalid(part, key, std::string(key) + " is not a whole number of at least 0");
}

Status check_number(const Part& part, std::string_view key, uint64_t expected, const char* why) {
  BP_ASSIGN(const uint64_t value, read_count(part, key));
  if (value == expected) return {};
  return invalid(part, key,
                 std::string(key) + " is " + std::to_string(value) + ", but " + why + " " +
                     std::to_string(expected));
}

Status check_tensors(const std::vector<Part>& parts) {
  struct Named {
    std::string_view name;
    const Part* part;
    uint64_t offset;
  };
  std::vector<Named> names;
  for (const Part& part : parts) {
    for (const TensorInfo& info : part.tensors) {
      names.push_back({view(info.tensor.name), &part, info.info_offset});
    }
  }
  if (names.size() > kMaxTensors) {
    return invalid(parts[0], kTensorsKey,
                   std::to_string(names.size()) + " tensors in all parts; " + "allowed are " +
                       std::to_string(kMaxTensors));
  }
  if (const auto i = find_duplicate(names, [](const Named& n) { return n.name; })) {
    const std::string rule = "tensor name " + quote(names[*i].name) + " stands in two parts";
    return invalid_argument(names[*i].part->bytes.message(names[*i].offset, rule));
  }
  for (const Part& part : parts) {
    // Later parts need not say it.
    if (&part != &parts[0] && find_metadata(part.metadata, kTensorsKey) == nullptr) continue;
    BP_TRY(check_number(part, kTensorsKey, names.size(), "the parts hold"));
  }
  return {};
}

}  // namespace

std::optional<SplitName> parse_split_name(std::string_view path) {
  // "-00001-of-00003.gguf"
  constexpr size_t kSuffix = 1 + kDigits + 4 + kDigits + 5;
  if (path.size() <= kSuffix) return std::nullopt;
  const std::string_view suffix = path.substr(path.size() - kSuffix);
  if (suffix[0] != '-' || suffix.substr(1 + kDigits, 4) != "-of-" || !suffix.ends_with(".gguf")) {
    return std::nullopt;
  }
  const auto number = parse_digits(suffix.substr(1, kDigits));
  const auto count = parse_digits(suffix.substr(1 + kDigits + 4, kDigits));
  if (!number || !count || *number < 1 || *number > *count) return std::nullopt;
  return SplitName{std::string(path.substr(0, path.size() - kSuffix)), *number - 1, *count};
}

std::string split_path(const SplitName& name, uint32_t index) {
  std::array<char, 32> suffix;
  std::snprintf(suffix.data(), suffix.size(), "-%05u-of-%05u.gguf", index + 1, name.count);
  return name.prefix + suffix.data();
}

Result<uint32_t> count_parts(const Part& first) {
  if (find_metadata(first.metadata, kCountKey) == nullptr) return uint32_t{1};
  BP_ASSIGN(const uint64_t count, read_count(first, kCountKey));
  if (count <= 1) return uint32_t{1};
  BP_ASSIGN(const uint64_t index, read_count(first, kIndexKey));
  const auto name = parse_split_name(first.bytes.path());
  if (!name) {
    return invalid(first, kCountKey,
                   "part " + std::to_string(index + 1) + " of " + std::to_string(count) +
                       ", but the file's name does not end in "
                       "-00001-of-00003.gguf or the like");
  }
  BP_TRY(check_number(first, kCountKey, name->count, "the file's name says"));
  if (name->index != 0) {
    return invalid(first, kIndexKey,
                   "part " + std::to_string(name->index + 1) + " of " + std::to_string(count) +
                       ": open the first part instead");
  }
  BP_TRY(check_number(first, kIndexKey, 0, "the file's name says"));
  return name->count;
}

Result<std::vector<Part>> read_all_parts(Part first) {
  BP_ASSIGN(const uint32_t count, count_parts(first));
  std::vector<Part> parts;
  parts.push_back(std::move(first));
  if (count == 1) return parts;
  const SplitName name = *parse_split_name(parts[0].bytes.path());
  for (uint32_t i = 1; i < count; ++i) {
    BP_ASSIGN(HeaderBytes bytes, HeaderBytes::open(split_path(name, i)));
    BP_ASSIGN(Part part, read_part(std::move(bytes)));
    BP_TRY(check_number(part, kIndexKey, i, "the file's name says"));
    BP_TRY(check_number(part, kCountKey, count, "the first part says"));
    parts.push_back(std::move(part));
  }
  BP_TRY(check_tensors(parts));
  return parts;
}

}  // namespace bp::gguf
