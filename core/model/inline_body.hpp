#pragma once
// Composite ops that a backend rejects are replaced by the bodies of their specs (sdk/ops), until
// the backend accepts the program.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/model/op_entry.hpp"
#include "core/model/program.hpp"
#include "core/plugin/backend.hpp"

namespace bp::model {

// Bodies of composites, by kind.
class OpBodies {
 public:
  // Reads NAME.yaml of every composite that this build knows.
  static Result<OpBodies> load(const std::string& folder);
  // nullptr for a primitive.
  [[nodiscard]] const std::vector<OpEntry>* find(std::string_view kind) const;

 private:
  std::map<std::string, std::vector<OpEntry>, std::less<>> bodies_;
};

// `inlined[i]` says whether op i is to be replaced; each such op is a composite.
Result<Program> inline_ops(const Program& program, const OpBodies& bodies,
                           const std::vector<bool>& inlined);

// Every obstacle to compiling a program, as plugin::BackendHandle::check reports them.
using CheckFunction = std::function<Result<std::vector<plugin::Obstacle>>(const bp_program&)>;

// The error lists what a backend rejects that has no body.
Result<Program> fit_to_backend(Program program, const OpBodies& bodies, const CheckFunction& check);

}  // namespace bp::model
