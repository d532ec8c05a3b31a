#include "backends/cpu/weights/weight_cache.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "backends/cpu/aligned_buffer.hpp"
#include "backends/cpu/weights/weight_cache_format.hpp"
#include "backplane/file_descriptor.hpp"

namespace bp::cpu {

namespace {

const char* fault_of(const CacheHeader& header, uint64_t file_bytes, std::string_view content_key) {
  if (std::memcmp(header.magic, kCacheMagic, sizeof kCacheMagic) != 0) return "has another magic";
  if (header.version != kCacheVersion || header.byte_order != kCacheByteOrder ||
      header.layout_version != kStripVersion) {
    return "is of another version";
  }
  if (header.content_hash != cache_hash(content_key)) return "belongs to other weights";
  if (header.file_bytes != file_bytes) return "has another size than its header says";
  const uint64_t table_end = sizeof header + uint64_t{header.n_entries} * sizeof(CacheEntry);
  if (table_end > header.data_offset || header.data_offset > file_bytes) {
    return "has a table beyond its end";
  }
  return nullptr;
}

bool lies_within(const CacheEntry& entry, const CacheHeader& header) {
  return entry.offset % kCacheAlignment == 0 && entry.offset >= header.data_offset &&
         entry.offset <= header.file_bytes && entry.n_bytes <= header.file_bytes - entry.offset;
}

Result<std::vector<CacheEntry>> read_table(int fd, uint64_t file_bytes,
                                           std::string_view content_key, const std::string& path) {
  const auto refused = [&](const char* fault) { return invalid_argument(path + " " + fault); };
  CacheHeader header{};
  if (file_bytes < sizeof header || !read_at(fd, &header, sizeof header, 0)) {
    return refused("has no header");
  }
  if (const char* fault = fault_of(header, file_bytes, content_key)) return refused(fault);
  std::vector<CacheEntry> entries(header.n_entries);
  if (!read_at(fd, entries.data(), entries.size() * sizeof(CacheEntry), sizeof header)) {
    return refused("cannot be read");
  }
  if (header.checksum != cache_checksum(header, entries.data())) {
    return refused("has another checksum");
  }
  if (!std::ranges::all_of(entries, [&](const CacheEntry& e) { return lies_within(e, header); })) {
    return refused("has an entry outside of itself");
  }
  return entries;
}

}  // namespace

Result<std::shared_ptr<WeightCache>> WeightCache::open(const std::string& folder,
                                                       std::string_view content_key) {
  const std::string path = folder + "/" + kCacheFileName;
  FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat status {};
  if (file.fd < 0 || ::fstat(file.fd, &status) != 0) return io_error(path + ": " + strerror(errno));
  if (!S_ISREG(status.st_mode)) return invalid_argument(path + " is no file");
  const auto n_bytes = static_cast<uint64_t>(status.st_size);
  BP_ASSIGN(const std::vector<CacheEntry> entries, read_table(file.fd, n_bytes, content_key, path));
  void* data = ::mmap(nullptr, n_bytes, PROT_READ, MAP_SHARED, file.fd, 0);
  if (data == MAP_FAILED) return out_of_memory(path + " cannot be mapped: " + strerror(errno));
  const auto begin = reinterpret_cast<uintptr_t>(data);
  std::shared_ptr<WeightCache> cache(new WeightCache({file.release(), begin, begin + n_bytes}));
  // Before the first touch: the file system then reads and maps huge pages where it can.
  ::madvise(data, n_bytes, MADV_HUGEPAGE);
  for (const CacheEntry& entry : entries) {
    cache->places_[key_of(entry)] = {entry.offset, entry.n_bytes};
  }
  return cache;
}

WeightCache::~WeightCache() {
  ::munmap(reinterpret_cast<void*>(file_.begin), file_.end - file_.begin);
  ::close(file_.fd);
}

WeightCache::Key WeightCache::key_of(const CacheEntry& entry) {
  return {entry.file,        entry.dtype,       entry.n_rows,          entry.n_columns,
          entry.bf16_layout, entry.file_offset, entry.row_stride_bytes};
}

std::shared_ptr<const uint8_t> WeightCache::find(const PreparedWeight& weight) const {
  const auto found = places_.find(key_of(cache_entry_of(weight)));
  if (found == places_.end() || found->second.n_bytes != weight.packed_bytes()) {
    return nullptr;
  }
  return {shared_from_this(), reinterpret_cast<const uint8_t*>(file_.begin + found->second.offset)};
}

bool WeightCache::has_all(std::span<const std::shared_ptr<PreparedWeight>> weights) const {
  return std::ranges::all_of(weights, [this](const std::shared_ptr<PreparedWeight>& weight) {
    return weight->is_placed() || !is_cacheable(*weight) || find(*weight) != nullptr;
  });
}

bool is_cacheable(const PreparedWeight& weight) {
  return weight.has_strips() && weight.rows().file != BP_NONE;
}

}  // namespace bp::cpu
