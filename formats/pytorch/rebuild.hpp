#pragma once
// What the calls of a pickle make of their arguments.

#include <span>

#include "backplane/status.hpp"
#include "formats/pytorch/globals.hpp"
#include "formats/pytorch/values.hpp"

namespace bp::pytorch {

// global(*arguments)
Result<Value> call(const Global& global, std::span<const Value> arguments, Arena& arena);

// What a persistent id stands for: ("storage", class, key, location, number of elements).
Result<Value> load_storage(std::span<const Value> id, Arena& arena);

}  // namespace bp::pytorch
