"""Records to roofline.json: series, ceilings, floors, points, checks, answers; every number, no word."""
