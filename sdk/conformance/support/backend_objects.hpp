#pragma once
// A plugin's backend and executable as the C table hands them out, destroyed in the right order, for
// tests that look at each call's status, error and outputs.

#include <utility>

#include "backplane/backend.h"
#include "backplane/plugin.hpp"
#include "sdk/conformance/subject.hpp"
#include "sdk/conformance/test.hpp"

namespace bp::conformance {

class BackendObjects {
 public:
  explicit BackendObjects(Subject& subject, const bp_host* host = nullptr)
      : table(subject.factory<bp_backend_factory>(BP_BACKEND_ID)), host_(make_growable<bp_host>()) {
    bp_error error{};
    const bp_status status =
        table.create(host == nullptr ? &host_ : host, &subject.params(), &backend, &error);
    if (status != BP_OK) throw Failure("create: " + from_c(status, error).message());
  }
  ~BackendObjects() {
    if (executable != nullptr) table.destroy_executable(executable);
    table.destroy(backend);
  }
  BackendObjects(const BackendObjects&) = delete;
  BackendObjects& operator=(const BackendObjects&) = delete;

  // Throws Failure where it fails.
  void compile(const bp_program& program, const bp_compile_options& options, uint32_t n_blocks) {
    bp_error error{};
    expect("compile", table.compile(backend, &program, &options, &executable, &error), error);
    allocate(program.n_kv_groups, n_blocks);
  }
  void allocate(uint32_t n_groups, uint32_t n_blocks) {
    bp_error error{};
    const std::vector<uint32_t> counts(n_groups, n_blocks);
    expect("kv_allocate", table.kv_allocate(executable, counts.data(), n_groups, &error), error);
    expect("warm_up", table.warm_up(executable, nullptr, &error), error);
  }
  void step(const bp_batch& batch) {
    bp_error error{};
    uint64_t ticket = 0;
    expect("submit", table.submit(executable, &batch, &ticket, &error), error);
    expect("collect", table.collect(executable, ticket, &error), error);
  }
  [[nodiscard]] uint32_t block_size() {
    bp_error error{};
    auto info = make_growable<bp_memory_info>();
    expect("memory", table.memory(executable, &info, &error), error);
    return info.block_size;
  }

  bp_backend_factory table;
  bp_backend* backend = nullptr;
  bp_executable* executable = nullptr;

 private:
  static void expect(const char* function, bp_status status, const bp_error& error) {
    if (status != BP_OK) {
      throw Failure(std::string(function) + ": " + from_c(status, error).message());
    }
  }

  bp_host host_;
};

}  // namespace bp::conformance
