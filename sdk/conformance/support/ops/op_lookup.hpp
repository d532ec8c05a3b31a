#pragma once
// What programs of ops are made from, or std::runtime_error.

#include <stdexcept>
#include <string>
#include <utility>

#include "backplane/op_schema.hpp"
#include "backplane/status.hpp"

namespace bp::conformance {

template <class T>
T value_of(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.status().message());
  return std::move(result).value();
}

inline const OpSchema& schema_of(const std::string& kind) {
  const OpSchema* schema = find_op_schema(kind);
  if (schema == nullptr) throw std::runtime_error("unknown op " + kind);
  return *schema;
}

}  // namespace bp::conformance
