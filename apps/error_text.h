// An exception as its user should read it.
#pragma once

#include <exception>
#include <string>

namespace genesis {

// What() of an Error; in words what the standard library throws where memory, a thread or a folder is not to be had, of
// which it tells no more than "std::bad_alloc" or "Resource temporarily unavailable".
std::string error_text(const std::exception& error);

}  // namespace genesis
