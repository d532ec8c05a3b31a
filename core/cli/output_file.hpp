#pragma once
// Where commands write the files that they make.

#include <string>

#include "backplane/status.hpp"
#include "core/model/model_file.hpp"

namespace bp::cli {

// An error where `output` is a file of the model or `input`, which would be lost, or a place where
// no file can be. input: another file that is read, or empty.
Status expect_output(const std::string& output, const model::ModelFile& model,
                     const std::string& input);

}  // namespace bp::cli
