#include "core/plugin/op_kernels.hpp"

#include "core/plugin/call.hpp"

namespace bp::plugin {

namespace {

const char* missing_function(const bp_op_kernels_factory& f) {
  if (f.create == nullptr) return "create";
  if (f.destroy == nullptr) return "destroy";
  if (f.accepts == nullptr) return "accepts";
  if (f.prepare == nullptr) return "prepare";
  if (f.release == nullptr) return "release";
  if (f.run == nullptr) return "run";
  return nullptr;
}

}  // namespace

KernelSetHandle::State::~State() {
  if (entry.set != nullptr) table.destroy(entry.set);
}

Result<KernelSetHandle> KernelSetHandle::create(const bp_op_kernels_factory* factory,
                                                const bp_host* host, const std::string& op,
                                                const std::string& plugin, const ParamMap& config) {
  auto state = std::make_unique<State>();
  state->op = op;
  state->plugin = plugin;
  state->table = copy_growable(factory);
  if (const char* name = missing_function(state->table)) {
    return invalid_argument(std::string("the required function bp_op_kernels_factory.") + name +
                            " is missing");
  }
  const CParams params(config);
  bp_kernel_set* set = nullptr;
  BP_TRY(call([&](bp_error* error) {
    return state->table.create(host, state->op.c_str(), params.get(), &set, error);
  }));
  if (set == nullptr) return internal_error("create succeeded without a set of kernels");
  state->entry = make_growable<bp_override>();
  state->entry.op = state->op.c_str();
  state->entry.plugin = state->plugin.c_str();
  state->entry.factory = &state->table;
  state->entry.set = set;
  return KernelSetHandle(std::move(state));
}

}  // namespace bp::plugin
