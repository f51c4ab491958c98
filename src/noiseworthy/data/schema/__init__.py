"""What the columns of a table are: stated in public, once, the same at every owner."""

from noiseworthy.data.schema.reading import Reading
from noiseworthy.data.schema.schema import Schema
from noiseworthy.data.schema.stated import by_person_column, check_beside, check_persons, read_schema

__all__ = ["Reading", "Schema", "by_person_column", "check_beside", "check_persons", "read_schema"]
