#pragma once

#include <cstdlib>
#include <string_view>

namespace bp::wrong {

// Whether this is the mistake to make.
inline bool makes(std::string_view mistake) {
  static const char* const mutation = std::getenv("MUTATION");
  return mutation != nullptr && mistake == mutation;
}

}  // namespace bp::wrong
