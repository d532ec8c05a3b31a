#pragma once
// An interpreter of the pickles that torch.save writes, protocols 2 to 5: the opcodes of data, and
// of calls the few in globals.hpp. Iterative, with a budget for everything that can grow.

#include <string>
#include <string_view>

#include "backplane/status.hpp"
#include "formats/pytorch/values.hpp"

namespace bp::pytorch {

struct Unpickled {
  Arena arena;
  Value root;
};

// Texts in the result point into `bytes`; errors begin with `subject`.
Result<Unpickled> unpickle(const std::string& subject, std::string_view bytes);

}  // namespace bp::pytorch
