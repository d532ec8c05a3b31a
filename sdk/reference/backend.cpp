#include "backplane/reference/backend.hpp"

#include <string>

#include "backplane/dtype.hpp"
#include "backplane/validate_program.hpp"

namespace bp::reference {

namespace {

constexpr uint32_t kMaxGroups = 8;  // of bp_memory_info::block_bytes

Status check_kv_dtype(const char* name, bp_dtype dtype) {
  for (const bp_dtype kept : {BP_DTYPE_NONE, BP_DTYPE_F32, BP_DTYPE_F16, BP_DTYPE_BF16,
                              BP_DTYPE_F8_E4M3, BP_DTYPE_Q8_0, BP_DTYPE_Q4_0}) {
    if (dtype == kept) return {};
  }
  return unsupported(std::string(name) + " is " + std::string(dtype_name(dtype)) +
                     ", the reference backend keeps f32, f16, bf16, f8_e4m3, q8_0 and q4_0");
}

// What is valid but beyond this backend.
void check_limits(const ProgramView& program, CheckReport& report) {
  for (const uint32_t value : program.inputs()) {
    if (value >= program.values().size() || program.values()[value].dtype == BP_DTYPE_I32) continue;
    report.obstacle(BP_NONE, "program inputs other than token ids are not supported");
  }
  if (program.n_groups() > kMaxGroups) {
    report.obstacle(BP_NONE, "more than " + std::to_string(kMaxGroups) + " groups of blocks");
  }
  for (const bp_weight& weight : program.weights()) {
    if (weight.n_parts == 1) continue;
    report.obstacle(BP_NONE, "weight " + weight_name(weight) +
                                 " has separate scales, zeros or order, which is not supported");
  }
}

}  // namespace

Result<Settings> read_settings(const Params& params) {
  Settings settings;
  const auto mode = params.get_string("cache_weights", "auto");
  if (mode == "auto") {
    settings.cache_weights = CacheWeights::kAuto;
  } else if (mode == "always") {
    settings.cache_weights = CacheWeights::kAlways;
  } else if (mode == "never") {
    settings.cache_weights = CacheWeights::kNever;
  } else {
    return invalid_argument("cache_weights is \"" + std::string(mode) +
                            "\", expected auto, always or never");
  }
  return settings;
}

Result<std::unique_ptr<Backend>> ReferenceBackend::create(const Host& host, const Params& params) {
  BP_ASSIGN(const Settings settings, read_settings(params));
  return std::unique_ptr<Backend>(std::make_unique<ReferenceBackend>(host, settings));
}

void ReferenceBackend::check(const bp_program& program, CheckReport& report) {
  const ProgramView view(program);
  validate_program(view, report);
  check_limits(view, report);
}

Result<std::unique_ptr<Executable>> ReferenceBackend::compile(const bp_program& program,
                                                              const bp_compile_options& options) {
  BP_TRY(check_kv_dtype("k_dtype", options.k_dtype));
  BP_TRY(check_kv_dtype("v_dtype", options.v_dtype));
  CheckReport report(nullptr);
  check(program, report);
  if (report.n_obstacles() > 0) {
    return unsupported("the program has obstacles; check names them");
  }
  auto executable = make_executable(program, options);
  BP_TRY(executable->prepare(settings_, Progress(options.progress)));
  BP_TRY(executable->bind_kernels(options));
  return std::unique_ptr<Executable>(std::move(executable));
}

std::unique_ptr<ReferenceExecutable> ReferenceBackend::make_executable(
    const bp_program& program, const bp_compile_options& options) {
  return std::make_unique<ReferenceExecutable>(host_, program, options);
}

}  // namespace bp::reference
