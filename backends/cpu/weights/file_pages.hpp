#pragma once
// Pages of mapped files. Ranges are widened to whole pages.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace bp::cpu {

// Asks for the bytes without waiting for them.
void read_ahead(const uint8_t* data, size_t n_bytes);

// Brings the bytes into this process, reading them where they are not in the system's cache.
void fault_in(const uint8_t* data, size_t n_bytes);

// Takes the bytes out of this process and, where it lets us, out of the system's cache; reading
// them again brings them back.
void drop_pages(const uint8_t* data, size_t n_bytes);

// Files of one program's weights, by what lies in their mappings and by a path, "" or canonical.
struct WeightFiles {
  std::vector<const void*> data;
  std::string path;
};

// What this process has in its memory of files that it has mapped to share and to read, but for
// `own`: weights of other models, mostly. The system counts it as available. `root` stands before
// /proc.
[[nodiscard]] uint64_t other_mapped_bytes(const WeightFiles& own, const std::string& root = "");

}  // namespace bp::cpu
