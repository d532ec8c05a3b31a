#pragma once
// How sequences come into being: a request is checked and becomes one, which its other choices
// follow.

#include <memory>

#include "backplane/status.hpp"
#include "core/engine/parts.hpp"
#include "core/engine/sequence.hpp"

namespace bp::engine {

// The first choice; the others are forks to come. `context`: tokens that prompt and answer may
// have. [any-thread]
Result<std::unique_ptr<Sequence>> make_sequence(const EngineParts& parts, uint32_t context,
                                                Request request);

// Another choice of its request, which has got no further than the prompt. `chain`: that of the
// first, copied.
std::unique_ptr<Sequence> make_fork(const Sequence& first, uint32_t choice, SamplerChain chain);

}  // namespace bp::engine
