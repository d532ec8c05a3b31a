#include "sdk/conformance/resources.hpp"

namespace bp::conformance {

namespace {

namespace fs = std::filesystem;

fs::path own_folder() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

fs::path find(const fs::path& installed, const fs::path& in_source) {
  const fs::path path = own_folder().parent_path() / "share" / "backplane" / installed;
  std::error_code ignored;
  return fs::exists(path, ignored) ? path : fs::path(BACKPLANE_SOURCE_DIR) / in_source;
}

}  // namespace

fs::path op_specs_folder() {
  return find("ops", "sdk/ops");
}
fs::path test_model() {
  return find("conformance/tiny-chat.gguf", "tests/data/tiny/tiny-chat.gguf");
}
fs::path expected_answers() {
  return find("conformance/expected.json", "tests/data/tiny/expected.json");
}
fs::path backplane_program() {
  const fs::path path = own_folder() / "backplane";
  std::error_code ignored;
  return fs::exists(path, ignored) ? path : fs::path();
}

}  // namespace bp::conformance
