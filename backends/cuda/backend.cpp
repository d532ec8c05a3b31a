#include "backends/cuda/backend.hpp"

#include <algorithm>
#include <string>

#include "backends/cuda/check_limits.hpp"
#include "backends/cuda/device/open_device.hpp"
#include "backends/cuda/kernels/kv.hpp"
#include "backends/cuda/plan/planner.hpp"
#include "backplane/dtype.hpp"
#include "backplane/validate_program.hpp"

namespace bp::cuda {

namespace {

Result<Settings> read_settings(const Params& params) {
  Settings settings;
  settings.memory_share = params.get_float("memory_share", settings.memory_share);
  settings.uses_graphs = params.get_bool("graphs", true);
  settings.waits_after_each_op = params.get_bool("synchronous", false);
  settings.times_steps = params.get_bool("step_times", false);
  if (!(settings.memory_share > 0 && settings.memory_share <= 1)) {
    return invalid_argument("memory_share is " + std::to_string(settings.memory_share) +
                            ", must be above 0 and at most 1");
  }
  return settings;
}

// The first matrix that many rows are multiplied with says what the model is made of.
bool any_matrix(const ProgramView& program, bool (*is_wanted)(bp_dtype)) {
  return std::ranges::any_of(program.weights(), [&](const bp_weight& weight) {
    return weight.parts[0].n_dims > 1 && is_wanted(weight.parts[0].dtype);
  });
}

// A model in float32 keeps its accuracy, one in bf16 the range of its numbers.
bp_dtype default_kv_dtype(const ProgramView& program) {
  if (!any_matrix(program, [](bp_dtype t) { return t != BP_DTYPE_F32; })) return BP_DTYPE_F32;
  const bool has_bf16 = any_matrix(program, [](bp_dtype t) { return t == BP_DTYPE_BF16; });
  return has_bf16 ? BP_DTYPE_BF16 : BP_DTYPE_F16;
}

Result<bp_dtype> kv_dtype(const char* name, bp_dtype asked, const ProgramView& program) {
  if (asked == BP_DTYPE_NONE) return default_kv_dtype(program);
  if (is_kv_dtype(asked)) return asked;
  return unsupported(std::string(name) + " is " + std::string(dtype_name(asked)) +
                     "; the cuda backend keeps f32, f16, bf16, f8_e4m3 and q8_0");
}

}  // namespace

Result<std::unique_ptr<Backend>> CudaBackend::create(const Host& host, const Params& params) {
  BP_ASSIGN(const Settings settings, read_settings(params));
  BP_ASSIGN(std::unique_ptr<Device> device, open_device(params));
  const DeviceInfo& info = device->info();
  const char* const library = info.has_matrix_library ? "with" : "without";
  host.log(BP_LOG_INFO, "cuda: " + info.name + ", " + library + " a matrix library");
  if (!info.library_failure.empty()) {
    host.log(BP_LOG_WARNING, "cuda: prompts will be slower: " + info.library_failure);
  }
  if (params.get_bool("fp8_products", false) &&
      !(info.has_fp8_products && info.has_matrix_library)) {
    host.log(BP_LOG_WARNING,
             "cuda: fp8_products needs compute capability 8.9 and a cuBLASLt that has such "
             "products; 8-bit weights are widened");
  }
  return std::unique_ptr<Backend>(
      std::make_unique<CudaBackend>(host, std::shared_ptr<Device>(std::move(device)), settings));
}

CudaBackend::CudaBackend(const Host& host, std::shared_ptr<Device> device, const Settings& settings)
    : host_(host), device_(std::move(device)), settings_(settings) {}

void CudaBackend::check(const bp_program& program, CheckReport& report) {
  const ProgramView view(program);
  if (validate_program(view, report)) check_limits(view, report);
}

Result<std::unique_ptr<Executable>> CudaBackend::compile(const bp_program& program,
                                                         const bp_compile_options& options) {
  CheckReport report(nullptr);
  check(program, report);
  if (report.n_obstacles() > 0) return unsupported("the program has obstacles; check names them");
  auto view = std::make_shared<const ProgramView>(program);
  BP_ASSIGN(const bp_dtype k_dtype, kv_dtype("k_dtype", options.k_dtype, *view));
  BP_ASSIGN(const bp_dtype v_dtype, kv_dtype("v_dtype", options.v_dtype, *view));
  KvCache kv(view->kv_slots(), view->header().n_kv_groups, choose_block_size(options.block_size),
             k_dtype, v_dtype);
  BP_ASSIGN(
      Plan plan,
      Planner(*view, weights_, device_->info(), CudaExecutable::largest_shape(options)).run());
  BP_TRY(weights_.place(*device_, plan.weights, Progress(options.progress)));
  auto executable =
      std::make_unique<CudaExecutable>(host_, device_, view, options, settings_, std::move(kv));
  BP_TRY(executable->prepare(std::move(plan)));
  return std::unique_ptr<Executable>(std::move(executable));
}

}  // namespace bp::cuda
