#include "tests/backends/cpu/isa_backends.hpp"

namespace bp::test {

namespace {

template <cpu::Isa kIsa, cpu::Prepare kPrepare>
struct FixedBackend : cpu::CpuBackend {
  static Result<std::unique_ptr<Backend>> create(const Host& host, const Params&) {
    return std::unique_ptr<Backend>(
        std::make_unique<cpu::CpuBackend>(host, cpu::Settings{kIsa, kPrepare}));
  }
};

template <cpu::Isa kIsa, cpu::Prepare kPrepare = cpu::Prepare::kRepack>
constexpr bp_backend_factory kCpuFactory = backend_factory<FixedBackend<kIsa, kPrepare>>();

}  // namespace

constexpr bp_backend_factory kScalarFactory = kCpuFactory<cpu::Isa::kScalar>;

std::vector<NamedFactory> cpu_factories() {
  std::vector<NamedFactory> all;
  for (const cpu::Isa isa : cpu::available_isas()) {
    const std::string name(cpu::isa_name(isa));
    if (isa == cpu::Isa::kScalar) all.push_back({name, &kScalarFactory});
    if (isa == cpu::Isa::kNeon) all.push_back({name, &kCpuFactory<cpu::Isa::kNeon>});
    if (isa == cpu::Isa::kAvx2) all.push_back({name, &kCpuFactory<cpu::Isa::kAvx2>});
    if (isa == cpu::Isa::kAvx2Vnni) all.push_back({name, &kCpuFactory<cpu::Isa::kAvx2Vnni>});
    if (isa == cpu::Isa::kAvx512) all.push_back({name, &kCpuFactory<cpu::Isa::kAvx512>});
    if (isa == cpu::Isa::kAvx512Bf16) {
      all.push_back({name, &kCpuFactory<cpu::Isa::kAvx512Bf16>});
    }
    if (isa == cpu::Isa::kAmx) all.push_back({name, &kCpuFactory<cpu::Isa::kAmx>});
  }
  all.push_back({"scalar, weights in place", &kCpuFactory<cpu::Isa::kScalar, cpu::Prepare::kNone>});
  return all;
}

}  // namespace bp::test
