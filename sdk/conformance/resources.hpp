#pragma once
// What the tool finds by its own place: ../share/backplane and its neighbours where it is
// installed, else the source tree that it was built from.

#include <filesystem>

namespace bp::conformance {

[[nodiscard]] std::filesystem::path op_specs_folder();
[[nodiscard]] std::filesystem::path test_model();         // tiny-chat.gguf
[[nodiscard]] std::filesystem::path expected_answers();   // of the test model: expected.json
[[nodiscard]] std::filesystem::path backplane_program();  // "" where there is none beside this one

}  // namespace bp::conformance
