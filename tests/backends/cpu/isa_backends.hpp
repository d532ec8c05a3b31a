#pragma once
// The backend's factory with a fixed configuration, for each instruction set that runs here.

#include <string>
#include <vector>

#include "backends/cpu/backend.hpp"

namespace bp::test {

struct NamedFactory {
  std::string name;
  const bp_backend_factory* factory;
};

std::vector<NamedFactory> cpu_factories();
extern const bp_backend_factory kScalarFactory;

}  // namespace bp::test
