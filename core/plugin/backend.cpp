#include "core/plugin/backend.hpp"

#include "core/plugin/call.hpp"

namespace bp::plugin {

ExecutableHandle::ExecutableHandle(ExecutableHandle&& other) noexcept
    : factory_(std::move(other.factory_)),
      executable_(std::exchange(other.executable_, nullptr)),
      calls_(std::move(other.calls_)) {}

ExecutableHandle::~ExecutableHandle() {
  if (executable_ != nullptr) factory_->destroy_executable(executable_);
}

Result<bp_memory_info> ExecutableHandle::memory() const {
  auto info = make_growable<bp_memory_info>();
  BP_TRY(calls()([&](bp_error* error) { return factory_->memory(executable_, &info, error); }));
  return info;
}

Status ExecutableHandle::kv_allocate(std::span<const uint32_t> n_blocks) const {
  const auto n_groups = static_cast<uint32_t>(n_blocks.size());
  return calls()([&](bp_error* error) {
    return factory_->kv_allocate(executable_, n_blocks.data(), n_groups, error);
  });
}

Status ExecutableHandle::warm_up(const bp_progress* progress) const {
  return calls()([&](bp_error* error) { return factory_->warm_up(executable_, progress, error); });
}

Status ExecutableHandle::submit(const bp_batch& batch, uint64_t& ticket) const {
  return calls()(
      [&](bp_error* error) { return factory_->submit(executable_, &batch, &ticket, error); });
}

Status ExecutableHandle::collect(uint64_t ticket) const {
  return calls()([&](bp_error* error) { return factory_->collect(executable_, ticket, error); });
}

namespace {

const char* missing_function(const bp_backend_factory& f) {
  if (f.create == nullptr) return "create";
  if (f.destroy == nullptr) return "destroy";
  if (f.check == nullptr) return "check";
  if (f.compile == nullptr) return "compile";
  if (f.destroy_executable == nullptr) return "destroy_executable";
  if (f.memory == nullptr) return "memory";
  if (f.kv_allocate == nullptr) return "kv_allocate";
  if (f.warm_up == nullptr) return "warm_up";
  if (f.submit == nullptr) return "submit";
  if (f.collect == nullptr) return "collect";
  return nullptr;
}

void collect_obstacle(void* user, uint32_t op, bp_str sentence) {
  static_cast<std::vector<Obstacle>*>(user)->push_back({op, std::string(view(sentence))});
}

}  // namespace

Result<BackendHandle> BackendHandle::create(const bp_backend_factory* factory, const bp_host* host,
                                            const ParamMap& config) {
  auto table = std::make_shared<const bp_backend_factory>(copy_growable(factory));
  if (const char* name = missing_function(*table)) {
    return invalid_argument(std::string("the required function bp_backend_factory.") + name +
                            " is missing");
  }
  const CParams params(config);
  bp_backend* backend = nullptr;
  BP_TRY(call([&](bp_error* error) { return table->create(host, params.get(), &backend, error); }));
  if (backend == nullptr) return internal_error("create succeeded without a backend");
  return BackendHandle(std::move(table), backend);
}

BackendHandle::BackendHandle(BackendHandle&& other) noexcept
    : factory_(std::move(other.factory_)), backend_(std::exchange(other.backend_, nullptr)) {}

BackendHandle::~BackendHandle() {
  if (backend_ != nullptr) factory_->destroy(backend_);
}

const void* BackendHandle::extension(const char* id) const {
  const void* found = nullptr;
  const Status called = call([&](bp_error*) {
    if (factory_->get_extension != nullptr) found = factory_->get_extension(backend_, id);
    return BP_OK;
  });
  return called.ok() ? found : nullptr;
}

Result<std::vector<Obstacle>> BackendHandle::check(const bp_program& program) const {
  std::vector<Obstacle> obstacles;
  auto report = make_growable<bp_check_report>();
  report.user = &obstacles;
  report.obstacle = collect_obstacle;
  const Status status =
      call([&](bp_error* error) { return factory_->check(backend_, &program, &report, error); });
  if (status.ok() || (status.code() == Code::kUnsupported && !obstacles.empty())) return obstacles;
  return status;
}

namespace {

// Zeros where the backend does not offer it.
bp_device_sampling sampling_of(const BackendHandle& backend) {
  const void* sampling = backend.extension(BP_DEVICE_SAMPLING_ID);
  return copy_growable(static_cast<const bp_device_sampling*>(sampling));
}

}  // namespace

uint32_t BackendHandle::max_candidates() const {
  return sampling_of(*this).max_candidates;
}

bool BackendHandle::takes_chosen() const {
  return sampling_of(*this).takes_chosen == 1;
}

Result<std::optional<bp_memory_plan>> BackendHandle::plan_memory(
    const bp_program& program, const bp_compile_options& options) const {
  const auto planner =
      copy_growable(static_cast<const bp_memory_planner*>(extension(BP_MEMORY_PLAN_ID)));
  if (planner.plan == nullptr) return std::optional<bp_memory_plan>();
  auto plan = make_growable<bp_memory_plan>();
  BP_TRY(call(
      [&](bp_error* error) { return planner.plan(backend_, &program, &options, &plan, error); }));
  if (plan.n_modes > std::size(plan.modes) || plan.chosen >= plan.n_modes) {
    return internal_error("a memory plan has impossible modes");
  }
  for (bp_weights_mode& mode : plan.modes) mode.name[sizeof mode.name - 1] = 0;
  return std::optional(plan);
}

Result<ExecutableHandle> BackendHandle::compile(const bp_program& program,
                                                const bp_compile_options& options) const {
  auto calls = std::make_unique<ExecutableCalls>();
  bp_executable* executable = nullptr;
  BP_TRY(call([&](bp_error* error) {
    return factory_->compile(backend_, &program, &options, &executable, error);
  }));
  if (executable == nullptr) return internal_error("compile succeeded without an executable");
  return ExecutableHandle(factory_, executable, std::move(calls));
}

}  // namespace bp::plugin
