#pragma once
// Decides where the packed weights of one executable are kept, and puts them there.

#include <memory>
#include <optional>
#include <string>

#include "backends/cpu/weights/choose_preparation.hpp"
#include "backends/cpu/weights/file_pages.hpp"
#include "backends/cpu/weights/weight_cache.hpp"
#include "backends/cpu/weights/weight_cache_writer.hpp"
#include "backends/cpu/weights/weight_store.hpp"
#include "backplane/backend.hpp"
#include "backplane/plugin.hpp"

namespace bp::cpu {

// Where a program's weights lie, or would in the options' cache folder.
[[nodiscard]] WeightFiles weight_files(const ProgramView& program,
                                       const bp_compile_options& options);

// Memory for a program: not what others of this process read of mapped files in every step.
[[nodiscard]] uint64_t available_beside_others(const WeightFiles& own);

// What the options' cache folder offers, without writing to it.
[[nodiscard]] CacheState cache_state(const bp_compile_options& options,
                                     std::optional<Prepare> wanted, const MemoryNeeds& needs);

class WeightPreparation {
 public:
  // The options outlive it.
  WeightPreparation(const Host& host, const bp_compile_options& options,
                    std::optional<Prepare> wanted, const MemoryNeeds& needs,
                    WeightFiles files = {});

  [[nodiscard]] Prepare prepare() const { return choice_.prepare; }
  [[nodiscard]] uint64_t resident_bytes() const { return choice_.resident_bytes; }
  // Whether not all mapped weights stay in memory.
  [[nodiscard]] bool is_streamed() const { return choice_.resident_bytes != UINT64_MAX; }
  // The cache's file, where weights are streamed from it.
  [[nodiscard]] std::shared_ptr<const MappedFile> streamed_file() const {
    return is_streamed() && cache_ != nullptr ? cache_->file() : nullptr;
  }

  // Writes the cache's file of the weights of a plan made for prepare(), if it wants one that is
  // not there. Where that fails prepare() may be another, for which the plan is to be made anew.
  Status keep(PreparedWeights weights, const Team& team);
  // The weights of a plan made for prepare(), once they are kept.
  Status place(PreparedWeights weights, WeightStore& store, const Team& team);

 private:
  [[nodiscard]] CacheState look_for_cache();
  Status check_memory(PreparedWeights weights) const;
  Status write_cache(PreparedWeights weights, const Team& team);
  void report() const;
  void log(uint32_t level, const std::string& text) const { host_.log(level, "cpu: " + text); }

  const Host& host_;
  const bp_compile_options& options_;
  std::optional<Prepare> wanted_;
  MemoryNeeds needs_;
  WeightFiles files_;
  Preparation choice_;
  std::string folder_, content_key_;
  std::shared_ptr<WeightCache> cache_;         // of earlier
  std::unique_ptr<WeightCacheWriter> writer_;  // or one to be made
};

}  // namespace bp::cpu
