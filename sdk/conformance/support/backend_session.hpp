#pragma once
// A backend and one executable behind the C table of a plugin, for tests. Throws Failure on errors
// that a test does not expect.

#include <string>
#include <vector>

#include "backplane/backend.h"
#include "backplane/plugin.hpp"
#include "sdk/conformance/test.hpp"

namespace bp::conformance {

class BackendSession {
 public:
  explicit BackendSession(const bp_backend_factory& factory, const bp_host* host = nullptr,
                          const bp_params* params = nullptr)
      : factory_(factory) {
    host_ = make_growable<bp_host>();
    params_ = make_growable<bp_params>();
    check("create", factory_.create(host == nullptr ? &host_ : host,
                                    params == nullptr ? &params_ : params, &backend_, &error_));
  }
  ~BackendSession() {
    if (executable_ != nullptr) factory_.destroy_executable(executable_);
    factory_.destroy(backend_);
  }
  BackendSession(const BackendSession&) = delete;
  BackendSession& operator=(const BackendSession&) = delete;

  [[nodiscard]] std::vector<std::pair<uint32_t, std::string>> obstacles(const bp_program& program) {
    std::vector<std::pair<uint32_t, std::string>> found;
    auto report = make_growable<bp_check_report>();
    report.user = &found;
    report.obstacle = [](void* user, uint32_t op, bp_str sentence) {
      static_cast<decltype(found)*>(user)->emplace_back(op, std::string(view(sentence)));
    };
    factory_.check(backend_, &program, &report, &error_);
    return found;
  }

  [[nodiscard]] static bp_compile_options default_options() {
    auto options = make_growable<bp_compile_options>();
    options.max_context = 4096;
    options.max_step_tokens = 512;
    options.max_sequences = 16;
    options.max_output_rows = 4096;
    return options;
  }
  [[nodiscard]] Status try_compile(const bp_program& program, const bp_compile_options& options) {
    const bp_status status = factory_.compile(backend_, &program, &options, &executable_, &error_);
    return from_c(status, error_);
  }
  // Compiles, and allocates n_blocks of each KV group and as many state entries.
  void compile(const bp_program& program, const bp_compile_options& options, uint32_t n_blocks) {
    const Status status = try_compile(program, options);
    if (!status.ok()) throw Failure("compile: " + status.message());
    allocate(program.n_kv_groups + (program.n_state_slots > 0 ? 1 : 0), n_blocks);
  }
  // After try_compile.
  void allocate(uint32_t n_groups, uint32_t n_blocks) {
    const std::vector<uint32_t> counts(n_groups, n_blocks);
    check("kv_allocate", factory_.kv_allocate(executable_, counts.data(), n_groups, &error_));
    check("warm_up", factory_.warm_up(executable_, nullptr, &error_));
  }

  // For calls whose status, error and outputs a test looks at itself.
  [[nodiscard]] const bp_backend_factory& table() const { return factory_; }
  [[nodiscard]] bp_backend* backend() const { return backend_; }
  [[nodiscard]] bp_executable* executable() const { return executable_; }

  [[nodiscard]] bp_memory_info memory() {
    auto info = make_growable<bp_memory_info>();
    check("memory", factory_.memory(executable_, &info, &error_));
    return info;
  }
  [[nodiscard]] Status run(const bp_batch& batch) {
    uint64_t ticket = 0;
    const bp_status submitted = factory_.submit(executable_, &batch, &ticket, &error_);
    if (submitted != BP_OK) return from_c(submitted, error_);
    const bp_status collected = factory_.collect(executable_, ticket, &error_);
    return from_c(collected, error_);
  }

 private:
  void check(const std::string& function, bp_status status) const {
    if (status != BP_OK) throw Failure(function + ": " + from_c(status, error_).message());
  }

  const bp_backend_factory& factory_;
  bp_host host_;
  bp_params params_;
  bp_backend* backend_ = nullptr;
  bp_executable* executable_ = nullptr;
  bp_error error_{};
};

}  // namespace bp::conformance
