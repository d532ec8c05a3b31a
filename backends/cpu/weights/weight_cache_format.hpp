#pragma once
// The file that keeps packed weights between runs: header, table, padding to 2 MB, then strips of
// one weight after another, in the order of their use, each from a multiple of 4096 on. Written and
// read by the same machine: numbers are the machine's own.

#include <cstdint>
#include <cstring>
#include <string_view>

#include "backends/cpu/weights/prepared_weight.hpp"

namespace bp::cpu {

inline constexpr char kCacheMagic[8] = {'B', 'P', 'S', 'T', 'R', 'I', 'P', 'S'};
inline constexpr uint32_t kCacheVersion = 2;  // of this file's form
inline constexpr uint32_t kCacheByteOrder = 0x01020304;
inline constexpr uint64_t kCacheAlignment = 4096;  // of a weight's strips
inline constexpr char kCacheFileName[] = "cpu.strips";

struct CacheHeader {
  char magic[8];
  uint32_t version;
  uint32_t byte_order;
  uint32_t layout_version;  // kStripVersion
  uint32_t n_entries;
  uint64_t file_bytes;
  uint64_t data_offset;   // of the first strips
  uint64_t content_hash;  // of the content key
  uint64_t checksum;      // of header and table, this field being 0
};

// Which rows of the model became which strips.
struct CacheEntry {
  uint32_t file;
  uint32_t dtype;
  uint32_t n_rows;
  uint32_t n_columns;
  uint32_t bf16_layout;  // Bf16Layout
  uint32_t reserved;     // 0
  uint64_t file_offset;  // in the model
  uint64_t row_stride_bytes;
  uint64_t offset;  // in this file
  uint64_t n_bytes;
};

static_assert(sizeof(CacheHeader) == 56 && sizeof(CacheEntry) == 56, "no padding is written");

// FNV-1a.
inline uint64_t cache_hash(const void* data, size_t n_bytes, uint64_t hash = 0xcbf29ce484222325u) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  for (size_t i = 0; i < n_bytes; ++i) hash = (hash ^ bytes[i]) * 0x100000001b3u;
  return hash;
}
inline uint64_t cache_hash(std::string_view text) {
  return cache_hash(text.data(), text.size());
}

// Everything of an entry that the weight decides.
inline CacheEntry cache_entry_of(const PreparedWeight& weight) {
  const WeightRows& rows = weight.rows();
  CacheEntry entry{};
  entry.file = rows.file;
  entry.dtype = rows.dtype;
  entry.n_rows = rows.n_rows;
  entry.n_columns = rows.n_columns;
  entry.bf16_layout = static_cast<uint32_t>(weight.bf16_layout());
  entry.file_offset = rows.file_offset;
  entry.row_stride_bytes = rows.row_stride_bytes;
  return entry;
}

// Of a whole file's header with its checksum left out, and its table.
inline uint64_t cache_checksum(CacheHeader header, const CacheEntry* entries) {
  header.checksum = 0;
  return cache_hash(entries, header.n_entries * sizeof(CacheEntry),
                    cache_hash(&header, sizeof header));
}

}  // namespace bp::cpu
