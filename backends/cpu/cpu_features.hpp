#pragma once
// Which kernels this processor runs.

#include <string_view>
#include <vector>

#include "backends/cpu/kernels/kernel_table.hpp"
#include "backplane/status.hpp"

namespace bp::cpu {

enum class Isa { kScalar, kNeon, kAvx2, kAvx2Vnni, kAvx512, kAvx512Bf16, kAmx };

[[nodiscard]] std::string_view isa_name(Isa isa);

// Instruction sets that this build has kernels for and this processor runs, the best last.
[[nodiscard]] std::vector<Isa> available_isas();

// "auto" is the best of them; kUnsupported where the processor lacks the one named.
Result<Isa> choose_isa(std::string_view name);

// As this processor runs them fastest. Precondition: isa is available.
[[nodiscard]] const Kernels& kernels_of(Isa isa);

// The same as a processor of another make might want them.
[[nodiscard]] Kernels make_kernels(Isa isa, Tuning tuning);

}  // namespace bp::cpu
