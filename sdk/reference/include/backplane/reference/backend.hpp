#pragma once
// The reference interpreter as a backend. Authors who override ops derive from it too and return
// their executable from make_executable.

#include <memory>

#include "backplane/backend.hpp"
#include "backplane/reference/executable.hpp"

namespace bp::reference {

// The settings of a plugin's configuration: cache_weights.
Result<Settings> read_settings(const Params& params);

class ReferenceBackend : public Backend {
 public:
  static Result<std::unique_ptr<Backend>> create(const Host& host, const Params& params);
  ReferenceBackend(const Host& host, const Settings& settings) : host_(host), settings_(settings) {}

  [[nodiscard]] uint64_t compile_features() const override { return BP_COMPILE_OVERRIDES; }
  [[nodiscard]] bool transfers_kv() const override { return true; }
  [[nodiscard]] uint32_t max_candidates() const override { return kMaxCandidates; }
  [[nodiscard]] bool takes_chosen() const override { return true; }
  void check(const bp_program& program, CheckReport& report) override;
  Result<std::unique_ptr<Executable>> compile(const bp_program& program,
                                              const bp_compile_options& options) override;

 protected:
  virtual std::unique_ptr<ReferenceExecutable> make_executable(const bp_program& program,
                                                               const bp_compile_options& options);
  [[nodiscard]] const Host& host() const { return host_; }

 private:
  Host host_;
  Settings settings_;
};

}  // namespace bp::reference
