#include "kernels/common/parallel.h"

#include <omp.h>

namespace genesis {

int thread_count() { return omp_get_max_threads(); }
void set_thread_count(int threads) { omp_set_num_threads(threads); }

int thread_index() { return omp_get_thread_num(); }

}  // namespace genesis
