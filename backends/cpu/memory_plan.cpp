// "bp.memory-plan/1": what a program would take, and which way of keeping its weights is chosen.

#include <algorithm>
#include <cstring>

#include "backends/cpu/backend.hpp"
#include "backends/cpu/kv_cache.hpp"
#include "backends/cpu/weights/weight_preparation.hpp"
#include "backplane/ext/memory_plan.h"

namespace bp::cpu {

namespace {

bp_weights_mode mode_of(Prepare prepare, const MemoryNeeds& needs, uint64_t available) {
  constexpr const char* kNames[] = {"none", "repack", "cache"};
  bp_weights_mode mode{};
  std::strncpy(mode.name, kNames[static_cast<int>(prepare)], sizeof mode.name - 1);
  mode.own_bytes = needs.own_bytes(prepare);
  mode.mapped_bytes = needs.mapped_bytes(prepare);
  mode.resident_bytes = std::min(mode.mapped_bytes, resident_bytes_of(prepare, needs, available));
  return mode;
}

bp_status plan(bp_backend* backend, const bp_program* program, const bp_compile_options* options,
               bp_memory_plan* out, bp_error* error) {
  return guarded(error, [&]() -> Status {
    auto& cpu = static_cast<CpuBackend&>(*reinterpret_cast<Backend*>(backend));
    auto made = make_growable<bp_memory_plan>();
    BP_TRY(cpu.plan_memory(*program, copy_growable(options), made));
    fill_growable(out, made);
    return {};
  });
}

}  // namespace

Status CpuBackend::plan_memory(const bp_program& program, const bp_compile_options& options,
                               bp_memory_plan& out) {
  CheckReport report(nullptr);
  check(program, report);
  if (report.n_obstacles() > 0) return unsupported("the program has obstacles; check names them");
  const ProgramView view(program);
  BP_ASSIGN(const MemoryNeeds needs, memory_needs(view, options));
  const uint64_t available = available_beside_others(weight_files(view, options));
  const CacheState cache = cache_state(options, settings_.prepare, needs);
  out.n_modes = 3;
  for (const Prepare prepare : {Prepare::kNone, Prepare::kRepack, Prepare::kCache}) {
    out.modes[static_cast<int>(prepare)] = mode_of(prepare, needs, available);
  }
  const Preparation chosen = choose_preparation(settings_.prepare, needs, cache, available);
  out.chosen = static_cast<uint32_t>(chosen.prepare);
  out.available_bytes = available;
  BP_ASSIGN(const KvCache kv, make_kv(view, options));
  out.kv_bytes_per_token = kv.bytes_of(options.max_context) / std::max(options.max_context, 1u);
  return {};
}

const void* CpuBackend::get_extension(std::string_view id) {
  static constexpr bp_memory_planner kPlanner = {sizeof(bp_memory_planner), 0, plan};
  return id == BP_MEMORY_PLAN_ID ? &kPlanner : nullptr;
}

}  // namespace bp::cpu
