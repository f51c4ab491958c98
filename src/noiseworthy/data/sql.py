"""Records in a database: a connection string without a password, and a query that is read the same twice."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from noiseworthy.data.files import locate
from noiseworthy.data.frames import Arrays, needed, of_rows
from noiseworthy.data.readers import SQL
from noiseworthy.errors import ConfigError, DataError

PASSWORD_VARIABLE = "NOISEWORTHY_SQL_PASSWORD"
_SECRET = re.compile(r"pass|pwd|secret|token", re.IGNORECASE)
# as SQLAlchemy tells a password, which may hold what ends the host of a URL for urllib: / ? #
_PASSWORD = re.compile(r"[^:/]*://[^:/]*:[^@]+@")
_BESIDE = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`|--[^\n]*|/\*.*?\*/", re.DOTALL)
"""Parts of a query in which no word is one of SQL's."""
_INSIDE = re.compile(r"\([^()]*\)")
_REMEDY = (
    "end it with order by and columns that no two rows share and that stay as they are, such as a record's "
    "number; which records are held out for tests, and whether they are those of last time, depends on it"
)


@dataclass(frozen=True)
class Query:
    """A query of a database, as a source of records.

    Attributes:
        url: connection string as SQLAlchemy reads it, without a password.
        text: one SELECT with ORDER BY.
        data_dir: folder in which a relative path of an SQLite file is looked up, after the working directory.

    Raises:
        ConfigError: a password in the connection string, or a query that is no SELECT or leaves the order of
            rows open.

    Example:
        >>> Query("sqlite:///ward.db", "select age, ill from patients")
        Traceback (most recent call last):
        noiseworthy.errors.ConfigError: the query leaves the order of its rows open; end it with order by ...
    """

    url: str
    text: str
    data_dir: str | Path | None = None

    def __post_init__(self):
        if said := misfit(self.url, self.text):
            raise ConfigError(said)

    @property
    def name(self) -> str:
        """The database's own."""
        return Path(urlsplit(self.url).path).stem or "database"

    def read(self, *, cells: bool) -> Arrays:
        """The columns that the query gives, in its order; nothing is written.

        The password, if one is needed, is that of the environment variable NOISEWORTHY_SQL_PASSWORD.

        Args:
            cells: as in `readers.read_columns`.

        Raises:
            DataError: no such database, a package that is not installed, or a query that fails.
        """
        sqlalchemy = needed("sqlalchemy", "sql", f"{SQL} data")
        engine = self._engine(sqlalchemy)
        try:
            with engine.connect() as connection:
                result = connection.exec_driver_sql(self.text)
                names, rows = [*result.keys()], [tuple(row) for row in result]
        except sqlalchemy.exc.SQLAlchemyError as cause:
            said = _concealed(str(getattr(cause, "orig", None) or cause).split("\n")[0])
            raise DataError(f"{self.url} does not answer the query: {said}") from None
        finally:
            engine.dispose()
        return of_rows(names, rows, "the query", cells=cells)

    def _engine(self, sqlalchemy: Any) -> Any:
        try:
            url = sqlalchemy.make_url(self.url)
            if url.get_backend_name() == "sqlite":
                file = locate(url.database or "", self.data_dir).absolute()
                options = {**url.query, "mode": "ro", "uri": "true"}
                return sqlalchemy.create_engine(url.set(database=f"file:{quote(str(file))}", query=options))
            return sqlalchemy.create_engine(url.set(password=os.environ.get(PASSWORD_VARIABLE)))
        except sqlalchemy.exc.ArgumentError as cause:
            raise DataError(f"{self.url} is no connection string: {_concealed(str(cause))}") from None
        except ImportError as cause:
            raise DataError(f"{self.url} needs a package: {cause}; pip install it") from None


def misfit(url: str, text: str) -> str | None:
    """What is wrong with a connection string or a query; a password is not repeated.

    Args:
        url: connection string.
        text: query.
    """
    options = [part for option in parse_qsl(url.partition("?")[2]) for part in option]
    if _PASSWORD.match(url) or any(map(_SECRET.search, options)):
        return (
            "a connection string must hold no password, because study files and records are shown to others; "
            f"set the environment variable {PASSWORD_VARIABLE} and leave it out"
        )
    bare = _BESIDE.sub(" ", text)
    if not re.match(r"\s*(select|with)\b", bare, re.IGNORECASE) or ";" in bare.rstrip().rstrip(";"):
        return "the query must be one select"
    while bare != (outer := _INSIDE.sub(" ", bare)):
        bare = outer
    if not re.search(r"\border\s+by\b", bare, re.IGNORECASE):
        return f"the query leaves the order of its rows open; {_REMEDY}"
    return None


def _concealed(text: str) -> str:
    password = os.environ.get(PASSWORD_VARIABLE)
    return text.replace(password, "***") if password else text
