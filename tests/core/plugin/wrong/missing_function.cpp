// A backend whose table lacks `submit`.
#include "backplane/backend.hpp"

namespace {

class Empty : public bp::Backend {
 public:
  static bp::Result<std::unique_ptr<bp::Backend>> create(const bp::Host&, const bp::Params&) {
    return std::unique_ptr<bp::Backend>(new Empty);
  }
  void check(const bp_program&, bp::CheckReport&) override {}
  bp::Result<std::unique_ptr<bp::Executable>> compile(const bp_program&,
                                                      const bp_compile_options&) override {
    return bp::unsupported("it compiles nothing");
  }
};

constexpr bp_backend_factory without_submit() {
  bp_backend_factory factory = bp::backend_factory<Empty>();
  factory.submit = nullptr;
  return factory;
}
constexpr bp_backend_factory kFactory = without_submit();

}  // namespace

BP_PLUGIN("missing-function", "1.0.0", {BP_BACKEND_ID, &kFactory});
