#include "formats/pytorch/zip.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "backplane/byte_reader.hpp"
#include "backplane/text.hpp"
#include "formats/huggingface/files.hpp"
#include "formats/pytorch/limits.hpp"

namespace bp::pytorch {

using huggingface::invalid;

namespace {

// Sizes and signatures of PKWARE's APPNOTE.
constexpr uint64_t kEndBytes = 22;
constexpr uint64_t kEnd64LocatorBytes = 20;
constexpr uint64_t kEnd64Bytes = 56;
constexpr uint64_t kDirectoryEntryBytes = 46;
constexpr uint64_t kLocalBytes = 30;
constexpr uint32_t kEndSignature = 0x06054b50;
constexpr uint32_t kEnd64LocatorSignature = 0x07064b50;
constexpr uint32_t kEnd64Signature = 0x06064b50;
constexpr uint32_t kDirectorySignature = 0x02014b50;
constexpr uint32_t kLocalSignature = 0x04034b50;

constexpr uint16_t kEncryptedFlags = 1u << 0 | 1u << 6 | 1u << 13;
constexpr uint16_t kSizesFollowFlag = 1u << 3;
constexpr uint16_t kSizesExtra = 1;  // the extra field of 64-bit sizes
constexpr uint16_t kIn64Short = 0xffff;
constexpr uint32_t kIn64 = 0xffffffff;  // the value stands in the 64-bit field

struct Directory {
  uint64_t n_entries = 0;
  uint64_t offset = 0;
  uint64_t n_bytes = 0;
  uint64_t end = 0;  // where the end records begin
};

struct DirectoryEntry {
  std::string name;
  uint64_t local_offset = 0;
  uint64_t n_bytes = 0;
};

// What stands in an entry of the directory or in front of the entry itself.
struct EntryHeader {
  uint16_t flags = 0;
  uint16_t method = 0;
  uint64_t packed_bytes = 0;
  uint64_t n_bytes = 0;
  uint64_t local_offset = 0;
};

Status fault_of(const FileBytes& file, const ByteReader& reader) {
  return reader.ok() ? Status() : invalid(file.path, reader.fault());
}

// The 64-bit fields that stand in for saturated ones, in their order.
void read_extra(ByteReader& reader, uint64_t n_bytes, EntryHeader& header, bool has_offset) {
  const char* bytes = reader.take(n_bytes);
  if (bytes == nullptr) return;
  ByteReader extra{std::string_view(bytes, n_bytes)};
  std::optional<ByteReader> sizes;
  while (extra.left() >= 4) {
    const auto id = extra.number<uint16_t>();
    const auto size = extra.number<uint16_t>();
    const char* data = extra.take(size);
    if (data == nullptr) break;
    if (id != kSizesExtra) continue;
    reader.require(!sizes, "64-bit sizes stand twice");
    sizes.emplace(std::string_view(data, size));
  }
  reader.require(extra.ok() && extra.left() == 0, "an extra field ends early");
  uint64_t* const fields[] = {&header.n_bytes, &header.packed_bytes,
                              has_offset ? &header.local_offset : nullptr};
  for (uint64_t* field : fields) {
    if (field == nullptr || *field != kIn64) continue;
    if (!reader.require(sizes && sizes->left() >= 8, "a 64-bit size is missing")) return;
    *field = sizes->number<uint64_t>();
  }
}

void check_kind(ByteReader& reader, const EntryHeader& header) {
  reader.require((header.flags & kEncryptedFlags) == 0, "an encrypted entry");
  reader.require(header.method == 0, "an entry compressed by method " +
                                         std::to_string(header.method) +
                                         "; torch.save stores them as they are");
}

bool is_inside(std::string_view name) {
  if (name.empty() || name.front() == '/' || name.find('\\') != std::string_view::npos) {
    return false;
  }
  while (!name.empty()) {
    const size_t slash = std::min(name.find('/'), name.size());
    if (name.substr(0, slash) == "..") return false;
    name.remove_prefix(std::min(slash + 1, name.size()));
  }
  return true;
}

// The 64-bit end record, which a locator in front of the plain one announces.
Status read_end64(const FileBytes& file, uint64_t locator_at, Directory& directory) {
  BP_ASSIGN(const std::string locator_bytes, file.read(locator_at, kEnd64LocatorBytes));
  ByteReader locator(locator_bytes, locator_at);
  locator.number<uint32_t>();  // its signature led here
  const auto disk = locator.number<uint32_t>();
  const auto at = locator.number<uint64_t>();
  locator.require(disk == 0 && locator.number<uint32_t>() <= 1, "one of several volumes");
  locator.require(locator_at >= kEnd64Bytes && at == locator_at - kEnd64Bytes,
                  "the 64-bit end record must lie before its locator");
  BP_TRY(fault_of(file, locator));
  BP_ASSIGN(const std::string bytes, file.read(at, kEnd64Bytes));
  ByteReader record(bytes, at);
  record.require(record.number<uint32_t>() == kEnd64Signature, "a 64-bit end record must lie here");
  record.require(record.number<uint64_t>() == kEnd64Bytes - 12, "its size is another");
  record.number<uint32_t>();  // versions
  const auto disks = record.number<uint64_t>();
  directory.n_entries = record.number<uint64_t>();
  record.require(disks == 0 && record.number<uint64_t>() == directory.n_entries,
                 "one of several volumes");
  directory.n_bytes = record.number<uint64_t>();
  directory.offset = record.number<uint64_t>();
  directory.end = at;
  return fault_of(file, record);
}

Result<bool> has_locator(const FileBytes& file, uint64_t end_at) {
  if (end_at < kEnd64LocatorBytes) return false;
  BP_ASSIGN(const std::string bytes, file.read(end_at - kEnd64LocatorBytes, 4));
  return ByteReader(bytes).number<uint32_t>() == kEnd64LocatorSignature;
}

Result<Directory> find_directory(const FileBytes& file) {
  if (file.size < kEndBytes) return invalid(file.path, "ends before the end record of a zip");
  const uint64_t end_at = file.size - kEndBytes;
  BP_ASSIGN(const std::string bytes, file.read(end_at, kEndBytes));
  ByteReader end(bytes, end_at);
  end.require(end.number<uint32_t>() == kEndSignature,
              "the end record of a zip must lie here: the file is cut short, or has bytes behind");
  end.require(end.number<uint32_t>() == 0, "one of several volumes");
  const auto n_here = end.number<uint16_t>();
  const auto n_entries = end.number<uint16_t>();
  end.require(n_here == n_entries, "one of several volumes");
  const auto n_bytes = end.number<uint32_t>();
  const auto offset = end.number<uint32_t>();
  end.require(end.number<uint16_t>() == 0, "a comment");
  BP_TRY(fault_of(file, end));
  Directory directory{n_entries, offset, n_bytes, end_at};
  BP_ASSIGN(const bool is_64, has_locator(file, end_at));
  if (is_64) BP_TRY(read_end64(file, end_at - kEnd64LocatorBytes, directory));
  const bool agrees = (n_entries == directory.n_entries || n_entries == kIn64Short) &&
                      (n_bytes == directory.n_bytes || n_bytes == kIn64) &&
                      (offset == directory.offset || offset == kIn64);
  if (!agrees) return invalid(file.path, "the two end records of the zip disagree");
  if (directory.offset > directory.end || directory.n_bytes != directory.end - directory.offset) {
    return invalid(file.path, "the zip's directory of " + std::to_string(directory.n_bytes) +
                                  " bytes at offset " + std::to_string(directory.offset) +
                                  " does not end at its end record");
  }
  if (directory.n_entries > kMaxZipEntries || directory.n_bytes > kMaxDirectoryBytes ||
      directory.n_entries > directory.n_bytes / kDirectoryEntryBytes) {
    return invalid(file.path, "a zip of " + std::to_string(directory.n_entries) + " entries in " +
                                  std::to_string(directory.n_bytes) + " bytes of directory");
  }
  return directory;
}

DirectoryEntry read_entry(ByteReader& reader) {
  EntryHeader header;
  reader.require(reader.number<uint32_t>() == kDirectorySignature,
                 "an entry of the zip's directory must lie here");
  reader.number<uint32_t>();  // versions
  header.flags = reader.number<uint16_t>();
  header.method = reader.number<uint16_t>();
  reader.number<uint64_t>();  // time, checksum
  header.packed_bytes = reader.number<uint32_t>();
  header.n_bytes = reader.number<uint32_t>();
  const auto name_bytes = reader.number<uint16_t>();
  const auto extra_bytes = reader.number<uint16_t>();
  const auto comment_bytes = reader.number<uint16_t>();
  reader.require(reader.number<uint16_t>() == 0, "one of several volumes");
  reader.take(6);  // attributes
  header.local_offset = reader.number<uint32_t>();
  const char* name = reader.take(name_bytes);
  DirectoryEntry entry;
  if (name != nullptr) entry.name.assign(name, name_bytes);
  read_extra(reader, extra_bytes, header, true);
  reader.take(comment_bytes);
  check_kind(reader, header);
  reader.require(header.packed_bytes == header.n_bytes, "a stored entry of two sizes");
  reader.require(
      entry.name.size() <= kMaxZipNameBytes && is_text(entry.name) && is_inside(entry.name),
      "entry " + quote(entry.name) + " is no relative path within the archive");
  entry.local_offset = header.local_offset;
  entry.n_bytes = header.n_bytes;
  return entry;
}

// Where the entry's bytes lie, by the header in front of them, which must say what the directory
// says.
Result<ZipEntry> locate(const FileBytes& file, const DirectoryEntry& entry, uint64_t limit) {
  const uint64_t at = entry.local_offset;
  if (at > limit || limit - at < kLocalBytes) {
    return invalid(file.path, "entry " + quote(entry.name) + " begins at offset " +
                                  std::to_string(at) + ", behind all entries");
  }
  BP_ASSIGN(const std::string fixed, file.read(at, kLocalBytes));
  ByteReader reader(fixed, at);
  EntryHeader header;
  reader.require(reader.number<uint32_t>() == kLocalSignature, "an entry must lie here");
  reader.number<uint16_t>();  // version
  header.flags = reader.number<uint16_t>();
  header.method = reader.number<uint16_t>();
  reader.number<uint64_t>();  // time, checksum
  header.packed_bytes = reader.number<uint32_t>();
  header.n_bytes = reader.number<uint32_t>();
  const uint64_t name_bytes = reader.number<uint16_t>();
  const uint64_t extra_bytes = reader.number<uint16_t>();
  check_kind(reader, header);
  reader.require(name_bytes + extra_bytes <= limit - at - kLocalBytes, "a header without an end");
  BP_TRY(fault_of(file, reader));
  BP_ASSIGN(const std::string rest, file.read(at + kLocalBytes, name_bytes + extra_bytes));
  ByteReader tail(rest, at + kLocalBytes);
  const char* name = tail.take(name_bytes);
  tail.require(std::string_view(name, name_bytes) == entry.name, "the entry has another name");
  read_extra(tail, extra_bytes, header, false);
  const bool follow = (header.flags & kSizesFollowFlag) != 0 && header.n_bytes == 0;
  tail.require(header.packed_bytes == header.n_bytes && (follow || header.n_bytes == entry.n_bytes),
               "the entry has another size");
  BP_TRY(fault_of(file, tail));
  const uint64_t data = at + kLocalBytes + name_bytes + extra_bytes;
  if (entry.n_bytes <= limit - data) return ZipEntry{data, entry.n_bytes};
  return invalid(file.path, "entry " + quote(entry.name) + " of " + std::to_string(entry.n_bytes) +
                                " bytes at offset " + std::to_string(data) +
                                " reaches into the zip's directory");
}

Status check_apart(const FileBytes& file, std::vector<std::pair<uint64_t, uint64_t>> spans) {
  std::sort(spans.begin(), spans.end());
  for (size_t i = 1; i < spans.size(); ++i) {
    if (spans[i].first < spans[i - 1].second) {
      return invalid(file.path, "offset " + std::to_string(spans[i].first) +
                                    ": an entry of the zip overlaps the one before");
    }
  }
  return {};
}

}  // namespace

Result<std::map<std::string, ZipEntry>> read_zip(const FileBytes& file) {
  BP_ASSIGN(const Directory directory, find_directory(file));
  BP_ASSIGN(const std::string bytes, file.read(directory.offset, directory.n_bytes));
  ByteReader reader(bytes, directory.offset);
  std::map<std::string, ZipEntry> entries;
  std::vector<std::pair<uint64_t, uint64_t>> spans;
  for (uint64_t i = 0; i < directory.n_entries; ++i) {
    const DirectoryEntry entry = read_entry(reader);
    BP_TRY(fault_of(file, reader));
    BP_ASSIGN(const ZipEntry located, locate(file, entry, directory.offset));
    if (!entries.emplace(entry.name, located).second) {
      return invalid(file.path, "entry " + quote(entry.name) + " stands twice");
    }
    spans.emplace_back(entry.local_offset, located.offset + located.n_bytes);
  }
  if (reader.left() != 0)
    return invalid(file.path, "bytes between the zip's directory and its end");
  BP_TRY(check_apart(file, std::move(spans)));
  return entries;
}

}  // namespace bp::pytorch
