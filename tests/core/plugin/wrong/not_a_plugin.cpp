// A library without the one symbol.
extern "C" int not_a_plugin() {
  return 1;
}
