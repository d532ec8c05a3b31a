#pragma once
// A Jinja template as chat templates of Hugging Face models need it: the language of jinja2 with
// trim_blocks and lstrip_blocks, loop controls, `generation` blocks and the globals
// raise_exception and strftime_now.

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "backplane/status.hpp"

namespace bp::text::jinja {

struct TemplateAst;

// A character that the caller has put before words of the variables, to find these in the outcome.
// It is written as it is where others of its kind are escaped, or the caller would not see it.
struct Mark {
  char32_t character;
  // Offsets of such words that the text's end cuts off. Where the template takes something out of a
  // text, what stands before may become one together with what comes behind: it is marked, too.
  std::function<std::vector<size_t>(std::string_view)> cut_off;
};

struct RenderOptions {
  uint64_t fuel = 20'000'000;            // evaluation steps; long text and lists cost more
  size_t max_output_bytes = 32u << 20;   // of the result, and of any single string
  size_t max_memory_bytes = 256u << 20;  // of all values alive at once
  int max_depth = 500;                   // nesting of evaluation, of values and of the variables
  std::tm now{};                         // what strftime_now shows
  const Mark* mark = nullptr;            // must outlive the render
};

// Immutable after parse; render may be called from any thread, concurrently.
class Template {
 public:
  // Errors: INVALID_ARGUMENT, "line N: ...".
  static Result<Template> parse(std::string source);

  // `variables` is an object; its members become the template's variables. Errors:
  //   INVALID_ARGUMENT  the template refused by raise_exception; the message is the template's own
  //   UNSUPPORTED       the template fails on these variables, "line N: ..."
  //   OUT_OF_MEMORY     fuel, output, memory or depth used up, "line N: ..."
  Result<std::string> render(const nlohmann::ordered_json& variables,
                             const RenderOptions& options) const;

 private:
  explicit Template(std::shared_ptr<const TemplateAst> ast);

  std::shared_ptr<const TemplateAst> ast_;
};

}  // namespace bp::text::jinja
