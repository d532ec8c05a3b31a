#!/usr/bin/env python3
"""What abi_layout.py lets pass and what it stops, on made-up layouts of made-up versions."""
import pathlib
import tempfile
import unittest

import abi_layout

OLD = """\
bp_op growable size 16
bp_op.struct_size offset 0 size 4
bp_op.kind offset 8 size 8
bp_str frozen size 16
bp_str.data offset 0 size 8
"""


class Rules(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "released.txt").write_text("")

    def release(self, version, layout):
        path = self.folder / f"layout-{version}.txt"
        path.write_text(layout)
        abi_layout.release(self.folder, path)

    def broken(self, version, layout):
        return list(abi_layout.broken_releases(self.folder, version, layout))

    def test_a_growable_struct_grows_at_its_end(self):
        self.release("1.0", OLD)
        new = OLD.replace("growable size 16", "growable size 24") + "bp_op.more offset 16 size 8\n"
        self.assertEqual(self.broken("1.1", new), [])

    def test_a_released_line_stays(self):
        self.release("1.0", OLD)
        changes = [
            ("bp_op.kind offset 8", "bp_op.kind offset 16"),
            ("bp_op.kind offset 8 size 8\n", ""),
            ("bp_str frozen size 16", "bp_str frozen size 24"),
            ("bp_str frozen", "bp_str growable"),
            ("bp_op growable size 16", "bp_op growable size 8"),
        ]
        for old, new in changes:
            with self.subTest(change=new):
                self.assertEqual(len(self.broken("1.1", OLD.replace(old, new))), 1)

    def test_another_major_and_major_0_are_free(self):
        self.release("0.1", OLD)
        self.release("1.0", OLD)
        for version in ("0.2", "2.0"):
            self.assertEqual(self.broken(version, ""), [])

    def test_a_released_file_never_changes(self):
        self.release("0.1", OLD)
        self.assertEqual(list(abi_layout.changed_releases(self.folder)), [])
        (self.folder / "layout-0.1.txt").write_text(OLD.replace("size 8", "size 4"))
        self.assertEqual(len(list(abi_layout.changed_releases(self.folder))), 1)
        (self.folder / "layout-0.1.txt").unlink()
        self.assertEqual(len(list(abi_layout.changed_releases(self.folder))), 1)


if __name__ == "__main__":
    unittest.main()
