#pragma once
// Where packed weights are kept, by the memory there is.

#include <cstdint>
#include <optional>
#include <string>

#include "backends/cpu/weights/prepared_weight.hpp"
#include "backplane/program_view.hpp"

namespace bp::cpu {

// Bytes that running a program takes.
struct MemoryNeeds {
  uint64_t packed = 0;   // weights as strips
  uint64_t unfiled = 0;  // those of them that no file holds: they were made while loading
  uint64_t source = 0;   // the others in the model's file
  uint64_t mapped = 0;   // weights that keep their size: read from the model's file or a cache's
  uint64_t cached = 0;   // all of a cache file
  uint64_t kv = 0;       // of one sequence of full length
  // Of the weights, kept one way: in memory of the process, and read from mapped files.
  [[nodiscard]] uint64_t own_bytes(Prepare prepare) const;
  [[nodiscard]] uint64_t mapped_bytes(Prepare prepare) const;
  // All but kv. bf16_layout: see PreparedWeight
  [[nodiscard]] static MemoryNeeds of(const ProgramView& program, Bf16Layout bf16_layout);
};

// What the cache folder offers.
enum class CacheState { kNone, kWritable, kReady };

struct Preparation {
  Prepare prepare = Prepare::kRepack;
  // Of mapped weights that stay in memory; the rest is read anew in every step.
  uint64_t resident_bytes = UINT64_MAX;
  bool operator==(const Preparation&) const = default;
};

// Of weights in mapped files, what stays in memory; UINT64_MAX where all of them do.
[[nodiscard]] uint64_t resident_bytes_of(Prepare prepare, const MemoryNeeds& needs,
                                         uint64_t available_bytes);

// wanted: the configuration's; unset: a file where it can be kept and is worth it, else the fastest
// that memory allows.
[[nodiscard]] Preparation choose_preparation(std::optional<Prepare> wanted,
                                             const MemoryNeeds& needs, CacheState cache,
                                             uint64_t available_bytes);

}  // namespace bp::cpu
