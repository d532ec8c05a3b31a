#include "core/text/jinja/template.hpp"

#include <new>
#include <nlohmann/json.hpp>

#include "core/text/jinja/evaluator.hpp"
#include "core/text/jinja/json.hpp"
#include "core/text/jinja/lexer.hpp"
#include "core/text/jinja/parser.hpp"
#include "core/text/jinja/text_ops.hpp"

namespace bp::text::jinja {
namespace {

constexpr size_t kMaxSourceBytes = 4u << 20;

std::string at_line(int line, const std::string& message) {
  return line > 0 ? "line " + std::to_string(line) + ": " + message : message;
}

Status to_status(const TemplateError& error, int line) {
  switch (error.kind) {
    case ErrorKind::kSyntax:
      return invalid_argument(at_line(error.line, error.message));
    case ErrorKind::kRuntime:
      return unsupported(at_line(line, error.message));
    case ErrorKind::kLimit:
      return out_of_memory(at_line(line, error.message));
    case ErrorKind::kRefusal:
      return invalid_argument(error.message);
  }
  return internal_error(error.message);
}

}  // namespace

Template::Template(std::shared_ptr<const TemplateAst> ast) : ast_(std::move(ast)) {}

Result<Template> Template::parse(std::string source) {
  if (source.size() > kMaxSourceBytes) {
    return invalid_argument("the template is larger than 4 MiB");
  }
  if (!is_valid_utf8(source)) return invalid_argument("the template is not valid UTF-8");
  try {
    TemplateAst ast = Parser(tokenize(source)).parse();
    return Template(std::make_shared<const TemplateAst>(std::move(ast)));
  } catch (const TemplateError& error) {
    return to_status(error, 0);
  } catch (const std::bad_alloc&) {
    return out_of_memory("no memory to parse the template");
  }
}

Result<std::string> Template::render(const nlohmann::ordered_json& variables,
                                     const RenderOptions& options) const {
  if (!variables.is_object()) return invalid_argument("template variables are not an object");
  Runtime runtime(options);
  try {
    const Value converted = from_json(runtime, variables);
    return Evaluator(runtime, *converted.object<Dict>()).render(*ast_);
  } catch (const TemplateError& error) {
    return to_status(error, runtime.line);
  } catch (const std::bad_alloc&) {
    return out_of_memory(at_line(runtime.line, "no memory to render the template"));
  }
}

}  // namespace bp::text::jinja
