"""The fields of a config.json: what each means in which family, what is quantized and how."""
