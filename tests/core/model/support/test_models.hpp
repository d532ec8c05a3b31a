#pragma once
// The models of the shared test data, made where they are not files.

#include <string>

#include "backplane/status.hpp"

namespace bp::model::test {

// The path of a model that data/logits/expected.json names ("tiny-llama-0-f32",
// "stories260k-q8_0"). Synthetic ones are made once, in the build folder.
Result<std::string> test_model(const std::string& name);

}  // namespace bp::model::test
