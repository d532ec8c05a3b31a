#include "backends/cpu/backend.hpp"

#include <algorithm>
#include <string>

#include "backends/cpu/executable.hpp"
#include "backends/cpu/plan/planner.hpp"
#include "backends/cpu/stages/gated_delta_stage.hpp"
#include "backends/cpu/stages/short_conv_stage.hpp"
#include "backends/cpu/weights/weight_preparation.hpp"
#include "backplane/dtype.hpp"
#include "backplane/validate_program.hpp"

namespace bp::cpu {

namespace {

constexpr uint32_t kMaxGroups = 8;                     // of bp_memory_info::block_bytes
constexpr uint64_t kMaxDimension = uint64_t{1} << 30;  // rows or columns
constexpr std::string_view kOverridable[] = {BP_OP_LINEAR, BP_OP_NORM, BP_OP_ACTIVATE};

Result<Settings> read_settings(const Params& params) {
  Settings settings;
  BP_ASSIGN(settings.isa, choose_isa(params.get_string("isa", "auto")));
  const std::string_view prepare = params.get_string("prepare", "auto");
  if (prepare == "none") {
    settings.prepare = Prepare::kNone;
  } else if (prepare == "repack") {
    settings.prepare = Prepare::kRepack;
  } else if (prepare == "cache") {
    settings.prepare = Prepare::kCache;
  } else if (prepare != "auto") {
    return invalid_argument("prepare: '" + std::string(prepare) +
                            "' is not auto, none, repack or cache");
  }
  return settings;
}

bool is_matrix_of_another_type(const bp_weight& weight) {
  const bp_weight_part& part = weight.parts[0];
  return part.n_dims > 1 && part.dtype != BP_DTYPE_F32;
}

// bf16 where products of pairs read it as it is, but for a model in float32: its 8 bits would be
// most of the model's error.
KvType default_kv_type(const ProgramView& program, const Kernels& kernels) {
  const bool has_pairs = kernels.pack_query[static_cast<int>(KvType::kBF16)] != nullptr;
  const bool is_float32 = std::ranges::none_of(program.weights(), is_matrix_of_another_type);
  return has_pairs && !is_float32 ? KvType::kBF16 : KvType::kF16;
}

Result<KvType> kv_type(const char* name, bp_dtype dtype, KvType by_default) {
  if (dtype == BP_DTYPE_NONE) return by_default;
  if (dtype == BP_DTYPE_F16) return KvType::kF16;
  if (dtype == BP_DTYPE_F32) return KvType::kF32;
  if (dtype == BP_DTYPE_BF16) return KvType::kBF16;
  if (dtype == BP_DTYPE_Q8_0) return KvType::kQ8_0;
  if (dtype == BP_DTYPE_Q4_0) return KvType::kQ4_0;
  return unsupported(std::string(name) + " is " + std::string(dtype_name(dtype)) +
                     "; the cpu backend keeps f32, f16, bf16, q8_0 and q4_0");
}

void check_weight(const bp_weight& weight, CheckReport& report) {
  if (weight.n_parts != 1) {
    report.obstacle(BP_NONE, "weight " + weight_name(weight) +
                                 " has separate scales, zeros or order, which is not supported");
    return;
  }
  const bp_weight_part& part = weight.parts[0];
  if (std::any_of(part.dims, part.dims + part.n_dims,
                  [](uint64_t n) { return n > kMaxDimension; })) {
    report.obstacle(BP_NONE, "weight " + weight_name(weight) + " has a dimension above 2^30");
  }
}

// What is valid but beyond this backend.
void check_limits(const ProgramView& program, CheckReport& report) {
  for (const uint32_t input : program.inputs()) {
    if (program.values()[input].dtype == BP_DTYPE_I32) continue;
    report.obstacle(BP_NONE, "program inputs other than token ids are not supported");
  }
  if (program.n_groups() > kMaxGroups) {
    report.obstacle(BP_NONE, "more than " + std::to_string(kMaxGroups) + " groups of blocks");
  }
  for (const bp_value& value : program.values()) {
    if (value.width <= kMaxDimension) continue;
    report.obstacle(BP_NONE, "a value is wider than 2^30");
  }
  for (const bp_weight& weight : program.weights()) check_weight(weight, report);
}

// A phase of a step has an item for each head, or part of one, of each sequence or chunk of tokens.
Status check_items(const ProgramView& program, const bp_compile_options& options) {
  uint64_t n_heads = 1;
  for (const bp_kv_slot& slot : program.kv_slots()) {
    n_heads = std::max<uint64_t>(n_heads, slot.n_kv_heads);
  }
  for (const bp_op& op : program.ops()) {
    if (kind_of(op) == BP_OP_GATED_DELTA) {
      const auto a = attributes_of<bp_attr_gated_delta>(op);
      n_heads = std::max(n_heads, GatedDeltaStage::n_parts(a.value_dim) * uint64_t{a.n_heads});
    } else if (kind_of(op) == BP_OP_SHORT_CONV) {
      const uint32_t width = program.values()[op.inputs[0]].width;
      n_heads = std::max<uint64_t>(n_heads, ShortConvStage::n_parts(width));
    }
  }
  const uint64_t n_chunks = uint64_t{options.max_sequences} + options.max_step_tokens / 4;
  if (n_heads <= WorkShares::kMaxItems / std::max<uint64_t>(n_chunks, 1)) return {};
  return unsupported("a step of " + std::to_string(options.max_sequences) + " sequences and " +
                     std::to_string(options.max_step_tokens) + " tokens with " +
                     std::to_string(n_heads) + " heads is more than can be cut into items");
}

}  // namespace

Result<std::unique_ptr<Backend>> CpuBackend::create(const Host& host, const Params& params) {
  BP_ASSIGN(const Settings settings, read_settings(params));
  host.log(BP_LOG_INFO, "cpu: " + std::string(isa_name(settings.isa)) + " kernels");
  return std::unique_ptr<Backend>(std::make_unique<CpuBackend>(host, settings));
}

CpuBackend::CpuBackend(const Host& host, const Settings& settings)
    : host_(host), settings_(settings), weights_(kernels_of(settings.isa).bf16_layout) {}

void CpuBackend::check(const bp_program& program, CheckReport& report) {
  const ProgramView view(program);
  if (validate_program(view, report)) check_limits(view, report);
}

Result<KvCache> CpuBackend::make_kv(const ProgramView& program,
                                    const bp_compile_options& options) const {
  const KvType by_default = default_kv_type(program, kernels_of(settings_.isa));
  BP_ASSIGN(const KvType k_type, kv_type("k_dtype", options.k_dtype, by_default));
  BP_ASSIGN(const KvType v_type, kv_type("v_dtype", options.v_dtype, by_default));
  return KvCache(program.kv_slots(), program.header().n_kv_groups,
                 choose_block_size(options.block_size), k_type, v_type, &kernels_of(settings_.isa));
}

Result<MemoryNeeds> CpuBackend::memory_needs(const ProgramView& program,
                                             const bp_compile_options& options) const {
  BP_ASSIGN(const KvCache kv, make_kv(program, options));
  MemoryNeeds needs = MemoryNeeds::of(program, kernels_of(settings_.isa).bf16_layout);
  needs.kv = kv.bytes_of(options.max_context) + StateCache(program).entry_bytes();
  return needs;
}

Result<std::unique_ptr<Executable>> CpuBackend::compile(const bp_program& program,
                                                        const bp_compile_options& options) {
  CheckReport report(nullptr);
  check(program, report);
  if (report.n_obstacles() > 0) return unsupported("the program has obstacles; check names them");
  auto view = std::make_shared<const ProgramView>(program);
  BP_TRY(check_items(*view, options));
  const std::shared_ptr<const Team> team = Team::create(host_, options.n_threads);
  BP_ASSIGN(const Overrides overrides, Overrides::create(options, kOverridable));
  BP_ASSIGN(KvCache kv, make_kv(*view, options));
  BP_ASSIGN(const MemoryNeeds needs, memory_needs(*view, options));
  WeightPreparation preparation(host_, options, settings_.prepare, needs,
                                weight_files(*view, options));
  // Weights that come and go with the steps of one executable are its own.
  WeightStore of_executable(kernels_of(settings_.isa).bf16_layout);
  const auto store = [&]() -> WeightStore& {
    return preparation.is_streamed() ? of_executable : weights_;
  };
  const auto make_plan = [&] {
    return Planner(*view, store(), preparation.prepare(), overrides, options.max_step_tokens).run();
  };
  BP_ASSIGN(Plan plan, make_plan());
  const Prepare planned = preparation.prepare();
  const WeightStore* planned_store = &store();
  BP_TRY(preparation.keep(plan.weights, *team));
  if (preparation.prepare() != planned || &store() != planned_store) {
    BP_ASSIGN(plan, make_plan());
  }
  BP_TRY(preparation.place(plan.weights, store(), *team));
  auto executable = std::make_unique<CpuExecutable>(view, options, team, kernels_of(settings_.isa),
                                                    std::move(kv));
  BP_TRY(executable->prepare(std::move(plan), preparation.resident_bytes(),
                             preparation.streamed_file()));
  return std::unique_ptr<Executable>(std::move(executable));
}

}  // namespace bp::cpu
