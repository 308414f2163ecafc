#pragma once

#include <cstddef>
#include <string>

#include <sys/stat.h>

namespace waybill {

// Can users other than the owner read or change a file? libpq's rule for key files: group and others have no rights;
// but the group may read a file that belongs to root.
bool is_exposed(const struct stat& about);

// Why the file at `path` must not hold a secret: "others can read it (mode 0644); …". Empty if it may, or if it cannot
// be looked at: whoever reads it says so.
std::string exposure(const std::string& path);

// The content of a file that holds a secret. Throws Error(fix_config) that names the file if it cannot be read, has
// more than `bytes_max` bytes, or is exposed.
std::string read_secret_file(const std::string& path, std::size_t bytes_max = std::size_t{64} * 1024);

}  // namespace waybill
