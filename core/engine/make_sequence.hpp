#pragma once
// The door of the engine: a request is checked and becomes a sequence.

#include <memory>

#include "backplane/status.hpp"
#include "core/engine/parts.hpp"
#include "core/engine/sequence.hpp"

namespace bp::engine {

// The first choice, with the others as its forks. `context`: tokens that prompt and answer may
// have. [any-thread]
Result<std::unique_ptr<Sequence>> make_sequence(const EngineParts& parts, uint32_t context,
                                                Request request);

}  // namespace bp::engine
