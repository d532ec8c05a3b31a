#pragma once
// A backend and an executable behind the C ABI, with owners and Status. The factory's table is
// copied once, so that an older plugin's missing functions read as null.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backplane/backend.h"
#include "backplane/ext/device_sampling.h"
#include "backplane/ext/memory_plan.h"
#include "backplane/status.hpp"
#include "core/plugin/call.hpp"
#include "core/plugin/params.hpp"

namespace bp::plugin {

struct Obstacle {
  uint32_t op;  // index into the program, or BP_NONE
  std::string sentence;
};

class BackendHandle;

// Destroyed before its BackendHandle.
class ExecutableHandle {
 public:
  ExecutableHandle(ExecutableHandle&& other) noexcept;
  ExecutableHandle& operator=(ExecutableHandle&&) = delete;
  ~ExecutableHandle();

  Result<bp_memory_info> memory() const;
  Status kv_allocate(std::span<const uint32_t> n_blocks) const;
  Status warm_up(const bp_progress* progress) const;
  Status submit(const bp_batch& batch, uint64_t& ticket) const;
  Status collect(uint64_t ticket) const;

  [[nodiscard]] bp_executable* c() const { return executable_; }
  // What all its calls go through, those of extensions too.
  [[nodiscard]] ExecutableCalls& calls() const { return *calls_; }

 private:
  friend class BackendHandle;
  ExecutableHandle(std::shared_ptr<const bp_backend_factory> factory, bp_executable* executable,
                   std::unique_ptr<ExecutableCalls> calls)
      : factory_(std::move(factory)), executable_(executable), calls_(std::move(calls)) {}

  std::shared_ptr<const bp_backend_factory> factory_;
  bp_executable* executable_;
  std::unique_ptr<ExecutableCalls> calls_;
};

class BackendHandle {
 public:
  // `host` outlives the handle. Fails when a required function is missing from the table.
  static Result<BackendHandle> create(const bp_backend_factory* factory, const bp_host* host,
                                      const ParamMap& config);
  BackendHandle(BackendHandle&& other) noexcept;
  BackendHandle& operator=(BackendHandle&&) = delete;
  ~BackendHandle();

  // Every obstacle to compiling the program; empty when there is none.
  Result<std::vector<Obstacle>> check(const bp_program& program) const;
  // What the program would take, where the backend foretells it; see memory_plan.h.
  Result<std::optional<bp_memory_plan>> plan_memory(const bp_program& program,
                                                    const bp_compile_options& options) const;
  // Of a row, by "bp.device-sampling/1"; 0 where the backend does not offer it.
  [[nodiscard]] uint32_t max_candidates() const;
  // Whether steps take the tokens that the step before chose, by the same extension.
  [[nodiscard]] bool takes_chosen() const;
  // `program` outlives the executable.
  Result<ExecutableHandle> compile(const bp_program& program,
                                   const bp_compile_options& options) const;
  // What get_extension answers; NULL where the backend has none.
  [[nodiscard]] const void* extension(const char* id) const;

 private:
  BackendHandle(std::shared_ptr<const bp_backend_factory> factory, bp_backend* backend)
      : factory_(std::move(factory)), backend_(backend) {}

  std::shared_ptr<const bp_backend_factory> factory_;
  bp_backend* backend_;
};

}  // namespace bp::plugin
