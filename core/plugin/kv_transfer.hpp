#pragma once
// "bp.kv-transfer/1" of one executable: KV blocks to host memory and back.

#include <cstdint>
#include <optional>
#include <span>

#include "backplane/ext/kv_transfer.h"
#include "backplane/status.hpp"

namespace bp::plugin {

class BackendHandle;
class ExecutableCalls;
class ExecutableHandle;

// The executable outlives it.
class KvTransfer {
 public:
  // Before kv_allocate, once. nullopt where the backend does not offer it.
  static Result<std::optional<KvTransfer>> prepare(const BackendHandle& backend,
                                                   const ExecutableHandle& executable);

  [[nodiscard]] uint32_t n_groups() const { return info_.n_groups; }
  // Of one block, or state entry.
  [[nodiscard]] uint64_t image_bytes(uint32_t group) const { return info_.image_bytes[group]; }

  Status export_blocks(uint32_t group, std::span<const int32_t> blocks,
                       std::span<uint8_t> images) const;
  Status import_blocks(uint32_t group, std::span<const int32_t> blocks,
                       std::span<const uint8_t> images) const;

 private:
  KvTransfer(const bp_kv_transfer& table, const ExecutableHandle& executable,
             const bp_kv_image_info& info);

  bp_kv_transfer table_;
  bp_executable* executable_;
  ExecutableCalls* calls_;
  bp_kv_image_info info_;
};

}  // namespace bp::plugin
