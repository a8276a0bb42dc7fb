"""Part `certify-client`: ten clients through the stories of `coterie certify-client`, as consumers and as producers."""
