"""Arrays in, arrays out: coordinates, kernels and their compiled twins, sparse features, quadrature, roots."""
